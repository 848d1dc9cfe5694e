"""Verifying a store of which something moves, or goes, between the list and the look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.aof.config import RetentionConfig
from lakebed.base.errors import NotFound
from lakebed.base.files.protocol import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.world import World
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.seglake.meta.connection import connect_read_only
from lakebed.store.log_check import LogCheck, join_log, plan_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import StoreCheck, StoreReport, join_store, plan_store
from lakebed.store.store_check_lines import report_lines
from lakebed.store.topic_verification import verify_topic
from tests.aof.tiers.test_tier_scheduler import SECOND, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, write_segments
from tests.store.whole_stores import open_store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with open_store(tmp_path / "root") as store:
        write_segments(store.log("orders"), 4)
        for name in ("events", "others"):
            partition = store.topic(name).partition(0)
            partition.append_batch([b"one", b"two"])
            partition.seal()
            partition.append_batch([b"three"])
            group = store.topic(name).group("readers")
            group.ack_all(group.lease(max_messages=1))
    return tmp_path / "root"


def checked(
    root: Path, change: Callable[[Store], None], *, tier2: bool = True, after: int = 0
) -> StoreReport:
    """The change comes between the plan and the look, `after` so many pieces of it."""
    with open_store(root) as store, ReadOnlyStore(root) as reading:
        plan = plan_store(reading, tier2=tier2)
        pieces = plan.pieces()
        with StoreCheck(reading) as check:
            found = [check.run(piece) for piece in pieces[:after]]
            change(store)
            found += [check.run(piece) for piece in pieces[after:]]
    return join_store(plan, found)


# Segments of a log.


def move_to_tier_1(store: Store) -> None:
    tiers = store.log("orders").tiers
    tiers.upload([0, 1])
    tiers.evict([0, 1])


def move_to_tier_2(store: Store) -> None:
    tiers = store.log("orders").tiers
    tiers.upload([0, 1])
    tiers.evict([0, 1], warm=True)


@pytest.mark.parametrize("move", [move_to_tier_1, move_to_tier_2])
def test_a_segment_that_moves_is_read_where_it_went(
    root: Path, move: Callable[[Store], None]
) -> None:
    before = checked(root, lambda _store: None).logs[0].report
    report = checked(root, move).logs[0].report
    assert (report.segments, report.records) == (before.segments, before.records)
    assert (report.unread, report.problems) == ([], [])


def test_damage_of_a_segment_that_moves_is_found_where_it_went(root: Path) -> None:
    def move_and_damage(store: Store) -> None:
        move_to_tier_1(store)
        for path in (root / "aof" / "orders" / "warm").glob("*.zst"):
            data = bytearray(path.read_bytes())
            data[100] ^= 1
            path.write_bytes(data)

    assert len(checked(root, move_and_damage).logs[0].report.problems) == 2


def test_a_segment_that_moves_to_a_tier_that_is_not_read_is_not_counted_as_read(root: Path) -> None:
    before = checked(root, lambda _store: None).logs[0].report
    found = checked(root, move_to_tier_2, tier2=False)
    report = found.logs[0].report
    assert report.unread == [0, 1]
    assert report.segments == before.segments - 2
    assert report.records < before.records
    assert "note: orders: not read: 2 segments that only Tier 2 has" in report_lines(found)


def test_a_warm_file_that_goes_is_not_counted_as_read(root: Path) -> None:
    with open_store(root) as store:
        move_to_tier_1(store)

    def evict(store: Store) -> None:
        store.log("orders").tiers.evict([0, 1], warm=True)

    report = checked(root, evict).logs[0].report
    assert (report.segments, report.warm_files, report.unread) == (4, 0, [])


def test_a_segment_that_is_gone_for_good_is_not_counted(root: Path) -> None:
    before = checked(root, lambda _store: None).logs[0].report

    def remove(_store: Store) -> None:
        """As retention would, had it not recorded it: nobody can say where it went."""
        min((root / "aof" / "orders" / "segments").glob("*.seg")).unlink()

    report = checked(root, remove).logs[0].report
    assert report.segments == before.segments - 1


@pytest.mark.parametrize("tier2", [False, True])
def test_a_cold_segment_that_retention_removes_is_not_reported_as_unread(*, tier2: bool) -> None:
    world = World(1)
    manager, log = open_tiered(world, config=CONFIG)
    write_segments(log, 4)
    log.tiers.upload()
    log.tiers.evict(warm=tier2)
    manager.close()
    with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as reading:
        plan = plan_log(reading, "orders", tier2=tier2)
        keeping_one = replace(CONFIG, retention=RetentionConfig(count_max=1))
        manager, _ = open_tiered(world, config=keeping_one)
        world.runner.advance(10 * SECOND)
        check = LogCheck(reading, "orders")
        findings = [finding for piece in plan.pieces if (finding := check.run(piece)) is not None]
    report = join_log(plan, findings)
    assert (report.segments, report.unread, report.problems) == (1, [], [])
    manager.close()


# Topics and their groups.


def delete(store: Store) -> None:
    store.topics.delete("events")


def make_anew(store: Store) -> None:
    delete(store)
    store.topic("events").append_batch([b"another"]).result()


@pytest.mark.parametrize("after", range(0, 14, 2))
@pytest.mark.parametrize("change", [delete, make_anew])
def test_a_topic_that_is_deleted_is_gone_and_not_damaged(
    root: Path, change: Callable[[Store], None], after: int
) -> None:
    report = checked(root, change, after=after)
    assert report.is_good, report
    assert report.gone in ((), ("events",))
    assert [topic.name for topic in report.topics][-1] == "others"
    if after == 0:
        assert report.gone == ("events",)
        assert report.groups.groups == 1
        assert "note: the topic events was deleted meanwhile" in report_lines(report)


class DeletingDisk(RealDisk):
    """Something happens when a file is opened for the n-th time."""

    def __init__(self, act: Callable[[], None], *, nth: int) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._act = act
        self._left = nth

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        self._left -= 1
        if not self._left:
            self._act()
        return super().open(path, writable=writable)


@pytest.mark.thorough
def test_whenever_a_topic_is_deleted_it_is_no_damage(root: Path) -> None:
    """Also while it is listed: before the n-th file is opened."""
    gone_count = 0
    for nth in range(1, 400):
        has_acted = False

        def act() -> None:
            nonlocal has_acted
            has_acted = True
            store.topics.delete("events")

        with open_store(root) as store:
            store.topic("events").append_batch([b"one"]).result()
            disk = DeletingDisk(act, nth=nth)
            with (
                ThreadRunner() as runner,
                ReadOnlyStore(
                    root, disk=disk, runner=runner, connector=connect_read_only
                ) as reading,
                StoreCheck(reading) as check,
            ):
                plan = plan_store(reading)
                report = join_store(plan, [check.run(piece) for piece in plan.pieces()])
        assert report.is_good, (nth, report_lines(report))
        gone_count += bool(report.gone)
        if not has_acted:
            break
    assert gone_count > 5


def test_a_single_topic_that_is_deleted_meanwhile_is_told_as_not_there(root: Path) -> None:
    told = []
    for nth in range(2, 10):
        with open_store(root) as store, ThreadRunner() as runner:
            store.topic("events").append_batch([b"one"]).result()
            disk = DeletingDisk(lambda: store.topics.delete("events"), nth=nth)
            try:
                report = verify_topic(
                    disk, str(root), "events", runner=runner, progress=lambda *_: None
                )
                assert report.problems == ()  # it was whole before
            except NotFound as error:
                told.append(str(error))
    assert len(told) > 2
    assert all("there is no topic events" in one for one in told)
