"""How the store is, what it counts and how it is set, over the API."""

from __future__ import annotations

import os
from pathlib import Path

from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.api import admin, groups, logs, objects, topics
from lakebed.store.configuration import SET
from lakebed.store.settings import SECTIONS
from lakebed.version import VERSION
from tests.http_api.live_api import LiveApi, open_api


def fill(live_api: LiveApi) -> None:
    live_api.call(topics.CREATE_TOPIC, body=topics.NewTopic("orders", 2))
    sent = topics.Produce([b"one", b"two"], partition=1)
    live_api.call(topics.PRODUCE, {"topic": "orders"}, body=sent)
    billing = {"topic": "orders", "group": "billing"}
    live_api.call(groups.OPEN_GROUP, billing)
    live_api.call(groups.LEASE, billing, body=groups.LeaseRequest(max_messages=1))
    live_api.call(logs.APPEND_RECORDS, {"log": "events"}, body=logs.AppendRecords([b"one"]))
    live_api.call(objects.ENSURE_BUCKET, {"bucket": "photos"})


def test_health_is_told_without_a_look_at_the_store(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        assert live_api.call(admin.HEALTH) == admin.Health("ok", VERSION)
        live_api.store.close()
        assert live_api.call(admin.HEALTH).status == "ok"


def test_health_reports_that_the_api_is_draining(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        live_api.api.service.is_draining = True
        assert live_api.call(admin.HEALTH).status == "draining"


def test_the_state_tells_what_is_in_the_store(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        live_api.call(logs.OPEN_LOG, {"log": "events"})
        fill(live_api)
        state = live_api.call(admin.STATE)
    assert (state.logs, state.topics, state.buckets) == (["events"], ["orders"], ["photos"])
    assert (state.root, state.process_id) == (str(tmp_path / "store"), os.getpid())
    assert (state.version, state.store_version, state.pins) == (VERSION, 1, 0)
    assert state.free_bytes > 0
    assert state.opened_ms > 0


def test_asking_for_the_state_makes_nothing(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        before = sorted(path.name for path in (tmp_path / "store").iterdir())
        assert live_api.call(admin.STATE).buckets == []
        live_api.call(admin.COUNTERS)
        live_api.call(admin.CONFIGURATION)
        assert sorted(path.name for path in (tmp_path / "store").iterdir()) == before


def test_counters_of_all_engines_are_told(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        live_api.call(logs.OPEN_LOG, {"log": "events"})
        fill(live_api)
        counted = live_api.call(admin.COUNTERS).counters
    assert counted["aof"]["events"]["aof_appended_records"] == 1
    assert counted["aof"]["events"]["tier0_segments"] >= 0
    assert set(counted["keratin"]) == {"orders/0", "orders/1"}
    assert counted["keratin"]["orders/1"]["commit_items"] >= 1
    assert counted["keratin"]["orders/1"]["commit_duration_ns_count"] >= 1
    assert counted["stroma"]["orders-1 billing"]["commit_bytes"] > 0
    assert counted["seglake"]["objects"]["commit_items"] >= 1
    assert counted["door"]["produce"] == {"2xx": 1}


def test_the_settings_that_count_are_told_with_secrets_hidden(tmp_path: Path) -> None:
    hidden = "very-hidden"
    tier2 = SharedTierConfig(access_key_id="public", secret_access_key=hidden)
    with open_api(tmp_path, tier_config=tier2) as live_api:
        answer = live_api.ask("GET", "/v1/config")
        sections = live_api.call(admin.CONFIGURATION).sections
    assert set(sections) == set(SECTIONS)
    assert sections["aof_tier2"]["access_key_id"] == "public"
    assert sections["aof_tier2"]["secret_access_key"] == SET
    assert hidden.encode() not in answer.body
    for name, section in sections.items():
        assert set(section) == set(SECTIONS[name].__dataclass_fields__), name


def test_a_secret_that_is_not_set_is_told_so(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        found = live_api.call(admin.CONFIGURATION).sections["aof_tier2"]
    assert found["secret_access_key"] == ""
