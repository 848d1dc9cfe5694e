"""`verify` over the HTTP API: what its tasks fetch and find, against the files themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakebed.api.jobs import JOBS
from lakebed.base.damage_ledger import Loss
from lakebed.seglake.model import State
from lakebed.spark.backends import Backend
from lakebed.spark.jobs import verify_remote_segments
from lakebed.spark.jobs.verify import verify
from lakebed.spark.jobs.verify_remote import check_in_task, join_remote, plan_in_task
from lakebed.spark.jobs.verify_remote_segments import LogSegment
from lakebed.store.store_check import StoreReport, Unchecked, verify_store
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.store.lake_tiers import CONFIG
from tests.store.whole_stores import DAMAGES, OBJECTS, TOPICS, write_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_store(tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def live_api(root: Path) -> Iterator[LiveApi]:
    settings: dict[str, Any] = {"config": CONFIG, "object_config": OBJECTS, "topic_config": TOPICS}
    with open_api(root.parent, api_options={"jobs": JOBS}, **settings) as opened:
        yield opened


def at(live_api: LiveApi) -> Backend:
    return Backend(endpoint=f"http://{HOST}:{live_api.port}")


def checked(backend: Backend, *, tier2: bool = True) -> StoreReport:
    """As the job does it, in this process."""
    plan = plan_in_task(tier2, backend)
    return join_remote(plan, check_in_task(backend, plan.pieces))


def test_damage_on_record_is_reported_until_it_is_acknowledged(live_api: LiveApi) -> None:
    live_api.store.damage.record(Loss(engine="topics", name="orders", partition=0, problem="bad"))
    there = checked(at(live_api))
    assert [record.problem for record in there.damage] == ["bad"]
    assert not there.is_good
    live_api.store.damage.acknowledge(1)
    assert checked(at(live_api)).is_good


def test_a_whole_store_is_whole_from_afar(root: Path, live_api: LiveApi) -> None:
    here, there = verify_store(root), checked(at(live_api))
    assert there.is_good
    assert [(log.report.segments, log.report.records) for log in there.logs] == [
        (log.report.segments, log.report.records) for log in here.logs
    ]
    # Of each segment the hottest copy: two are in Tier 2 alone, one in Tier 1 as well.
    assert (there.logs[0].report.warm_files, there.logs[0].report.objects) == (1, 2)
    assert there.topics == here.topics
    assert there.objects == here.objects
    assert checked(at(live_api), tier2=False).logs[0].report.objects == 0


@pytest.mark.parametrize("fetch_bytes", [1 << 10, 8 << 20])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_in_each_engine_is_found_from_afar(
    root: Path, live_api: LiveApi, damage: str, fetch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_remote_segments, "FETCH_BYTES", fetch_bytes)
    DAMAGES[damage](root)
    here, there = verify_store(root), checked(at(live_api))
    assert not there.is_good
    of_logs = [log.problems for log in there.logs]
    assert list(map(bool, of_logs)) == [bool(log.problems) for log in here.logs]
    if damage == "hot":
        assert there.logs[0].report.problems == here.logs[0].report.problems
        assert there.logs[0].report.records == here.logs[0].report.records
    assert there.objects == here.objects
    found = [problem[2:] for problem in there.topics[0].report.problems]
    assert found == [problem[2:] for problem in here.topics[0].report.problems]
    assert there.topics[0].report.lost == here.topics[0].report.lost
    assert there.unchecked == ()


def test_what_moves_or_goes_between_listing_and_reading_is_looked_for(
    root: Path, live_api: LiveApi
) -> None:
    backend = at(live_api)
    plan = plan_in_task(True, backend)
    log = live_api.store.log("orders")
    log.tiers.hydrate([0])
    log.tiers.upload([4])
    log.tiers.evict([4])
    partition = live_api.store.topic("events").partition(0)
    partition.truncate_before(20)
    report = join_remote(plan, check_in_task(backend, plan.pieces))
    assert report.is_good, report
    assert report.topics[0].report.segments == 5
    assert report.logs[0].report.segments == 7


def test_a_log_that_does_not_exist_is_reported_and_not_created(
    root: Path, live_api: LiveApi
) -> None:
    backend = at(live_api)
    before = live_api.store.logs()
    piece = plan_in_task(True, backend).pieces[0]
    assert isinstance(piece, LogSegment)
    [finding] = check_in_task(backend, [piece._replace(log="gone")])
    assert isinstance(finding, Unchecked)
    assert (finding.what, "gone" in finding.why) == ("log gone, segment 0", True)
    assert live_api.store.logs() == before


@pytest.mark.spark
def test_tasks_read_through_the_endpoint_and_the_node_marks(
    spark: SparkSession, root: Path, live_api: LiveApi
) -> None:
    report = verify(spark, at(live_api))
    assert report.is_good
    assert "note: through an endpoint" in report.lines[0]
    for damage in DAMAGES.values():
        damage(root)
    report = verify(spark, at(live_api))
    assert not report.is_good
    assert report.facts["marked"] == 2
    assert live_api.store.bucket("photos").head("big").state is State.DAMAGED
