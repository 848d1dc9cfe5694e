"""Opens a manifest log for writing: replays it, repairs it and starts the journal."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.metrics import ManifestMetrics
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.repair import repair
from lakebed.aof.manifest.replay import ReplayResult, replay
from lakebed.base.clock import NS_PER_S
from lakebed.base.counters import Counters
from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.runner import Runner

_log = logging.getLogger(__name__)


def open_journal(
    disk: Disk,
    folder: str,
    *,
    quarantine: str,
    config: ManifestConfig,
    runner: Runner,
    random: Random,
    counters: Counters,
    wake: Callable[[], None],
    on_failure: Callable[[LakebedError], None],
    on_sealed: Callable[[], None] = lambda: None,
    on_room: Callable[[], None] = lambda: None,
) -> tuple[Journal, ReplayResult]:
    """Replays and repairs the manifest log in `folder`; returns its journal and the replay result.

    If the manifest log has no files yet, they are created when the first record is committed.
    """
    clock = runner.clock
    started_ns = clock.monotonic_ns()
    metrics = ManifestMetrics(counters, clock)
    paths = ManifestPaths(folder)
    reader = ManifestReader(disk, paths)
    replayed = replay(reader)
    tail = repair(disk, paths, replayed, quarantine=quarantine)
    seconds = (clock.monotonic_ns() - started_ns) / NS_PER_S
    metrics.chunks_active.follow(lambda: _chunk_count(reader))
    metrics.replay_seconds.set(seconds)
    metrics.crc_errors.add(replayed.crc_error_count)
    if replayed.snapshot is not None:
        metrics.snapshot_taken()
    _log_opened(replayed, folder=folder, seconds=seconds)
    journal = Journal(
        disk,
        paths,
        replayed,
        tail,
        config=config,
        runner=runner,
        random=random,
        metrics=metrics,
        wake=wake,
        on_sealed=on_sealed,
        on_room=on_room,
        on_failure=on_failure,
    )
    return journal, replayed


def _log_opened(replayed: ReplayResult, *, folder: str, seconds: float) -> None:
    for problem in replayed.problems:
        event(_log, "manifest_problem", level=logging.ERROR, folder=folder, problem=problem)
    for damage in replayed.damages:
        event(
            _log,
            "manifest_chunk_lost",
            level=logging.ERROR,
            chunk_index=damage.chunk_index,
            segments=sorted(damage.segment_ids),
        )
    event(
        _log,
        "manifest_replayed",
        folder=folder,
        records=replayed.record_count,
        segments=len(replayed.index),
        chunk_index=replayed.end.chunk_index,
        chunk_offset=replayed.end.offset,
        seconds=seconds,
    )


def _chunk_count(reader: ManifestReader) -> int:
    """Returns the number of chunk files in the folder, or 0 if they cannot be listed."""
    try:
        return len(reader.chunk_indexes())
    except LakebedError:
        return 0  # reading a metric must not raise
