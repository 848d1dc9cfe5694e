"""Verifies a manifest log: its checksums, the order of its records, and that its parts agree.

The checks are:
- The numbers of chunks and of records have no gaps, all chunks but the last are sealed, and times
  do not decrease.
- Each snapshot equals the state that results from the records before it.
- Everything that a replay needs exists: all chunks after the newest good snapshot, the two newest
  sealed chunks, and the snapshot that the last marker names, or a newer one (a marker is the record
  that a snapshot was written).
- The state agrees with the segments on disk, apart from lag (see `manifest_segments`).

Nothing is changed and no lock is taken. Snapshots are read first, then the chunks, then the
segments, so data that a writer adds meanwhile does not look like a loss. Segments that a writer
removes meanwhile may look lost; then the whole verification is repeated, up to two times.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.chunk import InspectedChunk
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.format import RECORDS_START, SnapshotMarker
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import Position
from lakebed.aof.manifest.replay import Plausibility
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.clock import NS_PER_MS
from lakebed.base.progress import Progress
from lakebed.base.runner import Runner
from lakebed.store.manifest_fold import ManifestFold
from lakebed.store.manifest_logs import ManifestLog, stream_folders
from lakebed.store.manifest_segments import Comparison, survey_segments
from lakebed.store.manifest_survey import (
    KNOWN_FLAGS,
    ChunkFacts,
    Damaged,
    SurveyedChunk,
    entries_of,
    ignored_names,
    survey_chunks,
    survey_snapshots,
)
from lakebed.store.verification import Problem

_LOOKS_MAX = 3
_LOOK_AGAIN_NS = 400 * NS_PER_MS  # longer than a record waits to be committed
_SEALED_KEPT = 2


@dataclass
class ManifestReport:
    """The result of verifying a manifest log. Notes are unusual facts that are not damage."""

    chunk_count: int = 0
    record_count: int = 0  # good records
    snapshot_count: int = 0
    compared_snapshot_count: int = 0  # snapshots compared with the records before them
    segment_count: int = 0  # segments compared with their files
    warm_file_count: int = 0  # this and the next two counts are set by the caller
    object_count: int = 0
    uploaded_chunk_count: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_doubtful: bool = False  # whether a segment that looks lost may just have been removed
    unreached: Tier2Error | None = None  # why not all objects were checked; set by the caller

    def add(self, path: str, problem: str, *, offset: int | None = None, state: str = "") -> None:
        verdict = Verdict.TORN if state == "torn" else Verdict.CORRUPT
        self.problems.append(Problem(path, offset, 0, verdict, problem))


def verify_manifest_log(
    manifest_log: ManifestLog, *, runner: Runner, progress: Progress
) -> ManifestReport:
    """Verifies a manifest log, and again if a segment that looks lost may just have been removed.

    Calls `progress` with the number of chunks read so far, and the number of all chunks.
    """
    report = _Verification(manifest_log, progress).run()
    for _ in range(_LOOKS_MAX - 1):
        if not report.is_doubtful:
            break
        runner.sleep_ns(_LOOK_AGAIN_NS)
        report = _Verification(manifest_log, progress).run()
    return report


class _Verification:
    """One attempt to verify a manifest log."""

    def __init__(self, manifest_log: ManifestLog, progress: Progress) -> None:
        self._manifest_log = manifest_log
        self._reader = manifest_log.reader
        self._progress = progress
        self._report = ManifestReport()
        self._last_ms = 0
        self._open: ChunkFacts | None = None  # the last chunk that is not sealed
        self._marker: SnapshotMarker | None = None

    def run(self) -> ManifestReport:
        report, reader = self._report, self._reader
        if self._manifest_log.problem is not None:
            report.problems.append(self._manifest_log.problem)
        self._check_names()
        self._snapshots = list(survey_snapshots(reader))
        self._check_snapshots()
        indexes = reader.chunk_indexes()
        good = [facts.snapshot for facts in self._snapshots if facts.snapshot is not None]
        self._folding = ManifestFold(good, is_from_start=indexes[:1] == [0])
        for surveyed in survey_chunks(reader, plausibility=self._plausibility):
            self._check_chunk(surveyed)
            self._progress(report.chunk_count, len(indexes))
        self._folding.finish()
        report.compared_snapshot_count = self._folding.compared_count
        for snapshot, problem in self._folding.disagreements:
            report.add(reader.paths.snapshot(snapshot.snapshot_id), problem)
        self._check_retention(indexes, [snapshot.position for snapshot in good])
        self._check_marker()
        self._compare_segments()
        return report

    def _plausibility(self) -> Plausibility:
        index = self._folding.index
        return Plausibility(index or ManifestIndex(), is_complete=index is not None)

    def _check_names(self) -> None:
        folder = self._reader.paths.folder
        names = [os.path.join(folder, name) for name in ignored_names(self._reader)]
        paths = self._manifest_log.paths
        others = [
            stream
            for stream in stream_folders(self._reader.disk, paths)
            if stream != self._manifest_log.stream
        ]
        names += [os.path.join(paths.manifest, stream) for stream in others]
        self._report.notes += [f"{name}: not part of this manifest log" for name in names]
        if self._manifest_log.is_enabled is False:
            self._report.notes.append("the manifest log is switched off: nothing is recorded")

    def _check_snapshots(self) -> None:
        report = self._report
        report.snapshot_count = len(self._snapshots)
        for facts in self._snapshots:
            if facts.problem:
                report.add(facts.path, facts.problem, state=facts.state)
        kept = ManifestConfig().snapshots_kept
        if len(self._snapshots) > kept + 1:
            report.notes.append(
                f"there are {len(self._snapshots)} snapshots; by default {kept} are kept"
            )

    def _check_chunk(self, surveyed: SurveyedChunk) -> None:
        facts, judged = surveyed
        report = self._report
        if self._open is not None:
            report.add(self._open.path, "the chunk is not sealed, although chunks follow it")
        self._open = None
        if facts.state != "missing":
            report.chunk_count += 1
        report.record_count += facts.record_count
        self._note_oddities(facts)
        for entry in entries_of(surveyed):
            if isinstance(entry, Damaged):
                report.add(entry.path, entry.problem, offset=entry.position.offset or None,
                           state=entry.state)  # fmt: skip
        if judged is None or not judged.is_usable:
            self._folding.lose_chunk(facts.chunk_index)
            return
        if not judged.is_sealed:
            self._open = facts
        self._fold(judged, facts)

    def _note_oddities(self, facts: ChunkFacts) -> None:
        unknown = facts.flags & ~KNOWN_FLAGS
        counts = {
            "flags that are unknown": unknown,
            "records of unknown types": facts.unknown_count,
            "records with flags": facts.flagged_count,
        }
        for what, count in counts.items():
            if count:
                number = hex(count) if what.startswith("flags") else count
                self._report.notes.append(f"{facts.path}: {what}: {number}")

    def _fold(self, judged: InspectedChunk, facts: ChunkFacts) -> None:
        problem = self._folding.begin_chunk(facts.chunk_index, base_record=facts.base_record)
        if problem:
            self._report.add(facts.path, problem)
        for placed in judged.records:
            record = placed.record
            if record.timestamp_ms < self._last_ms:
                problem = (
                    f"the record's time is {self._last_ms - record.timestamp_ms} ms before "
                    "that of an earlier record"
                )
                self._report.add(facts.path, problem, offset=placed.position.offset)
            self._last_ms = max(self._last_ms, record.timestamp_ms)
            if isinstance(record.payload, SnapshotMarker):
                self._marker = record.payload
                self._check_place(record.payload, placed.position, facts.path)
            self._folding.add(placed)
        end = Position(facts.chunk_index, judged.end)
        self._folding.end_chunk(end, is_whole=not facts.problem)

    def _check_place(self, marker: SnapshotMarker, at: Position, path: str) -> None:
        """Checks that a marker names its snapshot's position, and is not before that position."""
        named = Position(marker.chunk_index, marker.chunk_offset)
        for snapshot in (facts.snapshot for facts in self._snapshots):
            is_meant = snapshot is not None and snapshot.snapshot_id == marker.snapshot_id
            if snapshot is not None and is_meant and not named == snapshot.position <= at:
                problem = (
                    f"the marker of snapshot {marker.snapshot_id} has position {named}, "
                    f"but the snapshot is as of {snapshot.position}"
                )
                self._report.add(path, problem, offset=at.offset)

    def _check_retention(self, indexes: list[int], snapshots: list[Position]) -> None:
        folder, report = self._reader.paths.folder, self._report
        newest = max(snapshots, default=Position(0, RECORDS_START))
        if not indexes:
            if newest > (0, RECORDS_START):
                report.add(folder, "there are snapshots, but no chunks")
            return
        if indexes[0] > newest.chunk_index:
            why = f"a replay begins in chunk {newest.chunk_index}"
            report.add(folder, f"the chunks before {indexes[0]} are missing, but {why}")
        elif indexes[0] > max(0, indexes[-1] - _SEALED_KEPT):
            report.add(folder, f"there are fewer than {_SEALED_KEPT} sealed chunks")

    def _check_marker(self) -> None:
        """Checks that the snapshot that the last marker names, or a newer one, exists."""
        if self._marker is not None:
            last_id = self._marker.snapshot_id
            if not any(snapshot_id >= last_id for snapshot_id in self._reader.snapshot_ids()):
                self._report.add(
                    self._reader.paths.snapshot(last_id),
                    "the snapshot is missing, although the last marker names it",
                )

    def _compare_segments(self) -> None:
        report, index = self._report, self._folding.index
        if index is None:
            report.notes.append("segments are not compared: the current state is not known")
            return
        comparison = Comparison(
            index,
            survey_segments(self._reader.disk, self._manifest_log.paths),
            is_current=self._manifest_log.is_enabled is not False,
            is_at_rest=not self._folding.news_count,
        )
        report.segment_count = comparison.compared_count
        report.problems += comparison.problems
        report.notes += comparison.notes
        report.is_doubtful = comparison.is_doubtful
