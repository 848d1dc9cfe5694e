"""Reading a manifest log beside its writer: what vanishes meanwhile, and what is found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.replay import Moment, replay
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.store.manifest_logs import ManifestLog, find_manifest_log
from lakebed.store.manifest_survey import entries, survey_chunks, survey_snapshots
from lakebed.store.manifest_verification import verify_manifest_log
from lakebed.store.store import Store
from tests.cli.manifest_stores import (
    CONFIG,
    journal_of,
    segment_files,
    write_chunks,
    write_segment,
    write_segments,
)


class StaleReader(ManifestReader):
    """Was told of files that are gone by the time they are read."""

    def chunk_indexes(self) -> list[int]:
        return [*super().chunk_indexes(), 7]

    def snapshot_ids(self) -> list[int]:
        return [*super().snapshot_ids(), 99]


class Looking(ThreadRunner):
    """Does something instead of sleeping."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self.sleeps = 0
        self._meanwhile = meanwhile

    def sleep_ns(self, duration_ns: int) -> None:
        self.sleeps += 1
        self._meanwhile()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def found(root: Path) -> ManifestLog:
    return find_manifest_log(real_disk(), root, "orders")


def test_files_that_vanish_meanwhile_are_passed_over(root: Path) -> None:
    write_chunks(root, until=1)
    reader = found(root).reader
    stale = StaleReader(reader.disk, reader.paths)
    assert list(survey_snapshots(stale)) == list(survey_snapshots(reader))
    states = [looked.facts.state for looked in survey_chunks(stale)]
    assert states == ["sealed", "open", "missing"], "a gap is told, the file is not missed"
    assert len(list(entries(stale))) == len(list(entries(reader))) + 1


def test_a_replay_passes_over_a_snapshot_that_was_removed_meanwhile(root: Path) -> None:
    write_segments(root, 2)
    reader = found(root).reader

    class Stale(ManifestReader):
        def snapshot_ids(self) -> list[int]:
            return [*super().snapshot_ids(), 99]

    replayed = replay(Stale(reader.disk, reader.paths))
    assert replayed.snapshot is not None
    assert replayed.snapshot.snapshot_id == 1
    assert replayed.problems == []


def test_a_replay_that_stops_early_ends_where_it_stopped(root: Path) -> None:
    write_segments(root, 2)
    reader = found(root).reader
    for placed in reader.records():
        assert replay(reader, Moment(position=placed.position)).end == placed.position
    assert replay(reader, Moment(timestamp_ms=1)).end == Position(0, 64)


def test_a_removal_that_is_recorded_a_moment_later_is_no_damage(root: Path) -> None:
    write_segments(root, 3)
    segment_files(root)[0].unlink()

    def record() -> None:
        with Store.open(root, config=CONFIG) as store:
            store.log("orders")

    runner = Looking(record)
    report = verify_manifest_log(found(root), runner=runner, progress=lambda *_: None)
    assert (report.problems, report.notes, runner.sleeps) == ([], [], 1)
    segment_files(root)[0].unlink()
    runner = Looking(lambda: None)
    report = verify_manifest_log(found(root), runner=runner, progress=lambda *_: None)
    assert [problem.problem for problem in report.problems] == ["the file of segment 1 is missing"]
    assert runner.sleeps == 2


def test_more_snapshots_than_are_kept_are_noted(root: Path) -> None:
    config = ManifestConfig(snapshots_kept=9)
    with Store.open(root, config=AofConfig(manifest=config)) as store:
        log = store.log("orders")
        for _ in range(4):
            write_segment(log)
            journal_of(log).take_snapshot()
    with ThreadRunner() as runner:
        report = verify_manifest_log(found(root), runner=runner, progress=lambda *_: None)
    assert report.problems == []
    assert report.notes == ["there are 4 snapshots; by default 2 are kept"]
    assert report.compared_snapshot_count == 4
