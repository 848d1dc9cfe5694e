"""Pins through the API: made, listed, renewed, released; and retention leaves what they name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.api import logs, media, pins
from lakebed.api.pins import NewPin, RenewPin
from lakebed.base.errors import BadName, InputError, NotFound
from lakebed.base.units import KIB
from tests.http_api.live_api import LiveApi, open_api
from tests.http_api.log_apis import ORDERS, fill
from tests.http_api.waiters import wait_until

RETAINING = AofConfig(segment_bytes=64 * KIB, retention=RetentionConfig(count_max=1))


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=RETAINING) as live_api:
        yield live_api


def test_a_pin_keeps_segments_until_it_is_released(live_api: LiveApi) -> None:
    live_api.call(logs.OPEN_LOG, ORDERS)
    new = NewPin(0, 2, 60_000, "a query", log="orders")
    pin = live_api.call(pins.CREATE_PIN, body=new)
    assert (pin.start, pin.end, pin.log, pin.owner) == (0, 2, "orders", "a query")
    assert (pin.topic, pin.partition) == (None, None)
    assert pin.expires_ms - pin.created_ms == 60_000
    fill(live_api, 3)
    log = live_api.store.log("orders")
    log.maintenance_step()
    assert [info.segment_id for info in log.segments()] == [0, 1, 2]
    live_api.call(pins.RELEASE_PIN, {"pin": pin.pin_id})
    live_api.call(pins.RELEASE_PIN, {"pin": pin.pin_id})
    wait_until(live_api, lambda: [info.segment_id for info in log.segments()] == [2])


@pytest.mark.parametrize("accept", [media.JSON, media.MSGPACK])
def test_pins_are_listed_and_renewed(live_api: LiveApi, accept: str) -> None:
    of_log = live_api.call(pins.CREATE_PIN, body=NewPin(3, 7, 50_000, "backup", log="orders"))
    new = NewPin(10, 900, 50_000, "Sicherung ü", topic="clicks", partition=4)
    of_topic = live_api.call(pins.CREATE_PIN, body=new, accept=accept)
    assert (of_topic.topic, of_topic.partition, of_topic.log) == ("clicks", 4, None)
    assert (of_topic.start, of_topic.end) == (10, 900)
    assert live_api.call(pins.LIST_PINS, accept=accept).pins == [of_log, of_topic]
    renewed = live_api.call(
        pins.RENEW_PIN, {"pin": of_topic.pin_id}, body=RenewPin(500_000), accept=accept
    )
    assert renewed.expires_ms > of_topic.expires_ms
    assert renewed == dataclasses.replace(
        of_topic, expires_ms=renewed.expires_ms, renewed_ms=renewed.renewed_ms
    )
    assert live_api.store.pins.active_offsets()[0].expires_ms == renewed.expires_ms


def test_a_pin_that_is_gone_cannot_be_renewed(live_api: LiveApi) -> None:
    with pytest.raises(NotFound):
        live_api.call(pins.RENEW_PIN, {"pin": "0" * 16}, body=RenewPin(1000))
    for operation, body in ((pins.RENEW_PIN, RenewPin(1000)), (pins.RELEASE_PIN, None)):
        for name in ("../../store.json", "0" * 15, "x" * 16, "\0"):
            with pytest.raises(BadName):
                live_api.call(operation, {"pin": name}, body=body)


WRONG = [
    {"log": "a", "topic": "b", "partition": 0},
    {"log": "a", "partition": 0},
    {"topic": "b"},
    {"partition": 0},
    {},
    {"log": "../a"},
    {"log": "a", "start": 5, "end": 5},
    {"log": "a", "end": 1 << 40},
    {"log": "a", "end": 1 << 70},
    {"topic": "b", "partition": -1},
    {"topic": "b", "partition": 10**30},
    {"log": "a", "duration_ms": 0},
    {"log": "a", "duration_ms": 8 * 24 * 3600 * 1000},
    {"log": "a", "owner": ""},
    {"log": "a", "owner": "o" * 201},
    {"log": "a", "start": -1},
    {"log": "a", "extra": 1},
]


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_what_is_no_pin_is_refused(live_api: LiveApi, fields: dict[str, object]) -> None:
    document = {"start": 0, "end": 1, "duration_ms": 1000, "owner": "me", **fields}
    answer = live_api.ask("POST", "/v1/pins", msgspec.json.encode(document))
    assert answer.status == 400, answer
    assert isinstance(answer.problem, InputError)
    assert live_api.call(pins.LIST_PINS).pins == []
