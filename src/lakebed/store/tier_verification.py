"""Verifies the copies of a log's segments: its warm files, and its objects in Tier 2.

`Copies.check` tests only that the copies exist with the recorded size, and that objects have the
recorded checksum in their metadata. `Copies.verify` also reads and decompresses all of a copy, and
compares the payload with the segment's checksum.

Nothing is changed and no lock is taken. If a copy does not exist, it may have been removed just
now, so the manifest log is read again before the copy is reported as missing. If Tier 2 does not
answer, that is a `Tier2Error` and not a problem of the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.aof.identity import load_identity
from lakebed.aof.inspection import Verdict
from lakebed.aof.manifest.state import Pending, SegmentState
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.aof.tiers.object_store import ObjectInfo, ObjectSource, ObjectStore
from lakebed.aof.tiers.ranges import FileSource
from lakebed.aof.tiers.transfer import CRC64, crc64_text
from lakebed.base.errors import Corrupt, DataError, NotFound
from lakebed.base.progress import Progress
from lakebed.store.chunk_verification import ChunkObjects
from lakebed.store.copy_content import check_compressed_size, verify_copy
from lakebed.store.manifest_logs import ManifestLog
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.residency import (
    TIERS,
    States,
    recorded,
    recorded_states,
    tier2_address,
    tier2_place,
    warm_files,
)
from lakebed.store.verification import Problem

SEGMENT_CRC64 = "segment-crc64"  # a key of an object's metadata: the checksum of the payload


class CopyPiece(NamedTuple):
    """One unit of the check: a copy of a segment, as the manifest log records it."""

    tier: int
    state: SegmentState


class CopyReport(NamedTuple):
    """The result of checking one copy of a segment."""

    segment_id: int
    tier: int
    path: str  # for an object, its address and key
    key: str  # of the object
    has_local: bool  # whether Tier 0 or Tier 1 has the segment
    records: int | None  # None if it was not read, or is damaged
    problem: Problem | None


@dataclass
class CopiesReport:
    """The result of checking all copies, and the manifest log's own chunks in Tier 2."""

    warm_files: int = 0
    objects: int = 0
    chunks: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreached: Tier2Error | None = None  # why not all objects were checked


def check_copies(
    store: ReadOnlyStore, manifest_log: ManifestLog, *, progress: Progress
) -> CopiesReport:
    """Checks that all copies of segments that a manifest log names exist as recorded.

    Also checks the chunks of the manifest log itself that were uploaded to Tier 2. If Tier 2 cannot
    be reached, the rest is not checked, and the report has the error.
    """
    report = CopiesReport()
    copies = Copies(store, manifest_log.paths, recorded_states(store.disk, manifest_log.paths))
    total = copies.count(1) + copies.count(2)
    for copy in copies.check(1):
        report.warm_files += 1
        report.problems += [copy.problem] if copy.problem else []
    try:
        for copy in copies.check(2):  # one request to Tier 2 for each
            report.objects += 1
            report.problems += [copy.problem] if copy.problem else []
            progress(report.warm_files + report.objects, total)
        _check_chunks(copies, manifest_log, report)
    except Tier2Error as error:
        report.unreached = error
    return report


def check_chunk_objects(store: ReadOnlyStore, manifest_log: ManifestLog) -> CopiesReport:
    """Checks that the uploaded chunks of a manifest log are in Tier 2.

    If Tier 2 cannot be reached, the report has the error.
    """
    report = CopiesReport()
    try:
        _check_chunks(Copies(store, manifest_log.paths, {}), manifest_log, report)
    except Tier2Error as error:
        report.unreached = error
    return report


def _check_chunks(copies: Copies, manifest_log: ManifestLog, report: CopiesReport) -> None:
    chunks = copies.chunk_objects(manifest_log)
    for problem in chunks.check():
        report.chunks += 1
        report.problems += [problem] if problem else []
    report.notes += chunks.notes()


class Copies:
    """Checks the copies of segments that a manifest log names.

    `verify` also accepts pieces that another process listed.
    """

    def __init__(self, store: ReadOnlyStore, paths: LogPaths, states: States) -> None:
        self._disk = store.disk
        self._paths = paths
        self._services = store.tiers
        self._states = states
        self._address = tier2_address(store.disk, paths, default=store.tiers.address)
        self._place = tier2_place(store.root, self._address)
        self._warm = warm_files(store.disk, paths)
        self._store: ObjectStore | None = None

    def count(self, tier: int) -> int:
        return sum(1 for _ in self._named(tier))

    def check(self, tier: int) -> Iterator[CopyReport]:
        """Checks that the copies in a tier exist as recorded, without reading their content."""
        check_copy = self._look_at_object if tier == 2 else self._look_at_file
        for state in self._named(tier):
            yield self._report(state, tier, check_copy)

    def pieces(self, tier: int) -> list[CopyPiece]:
        """Returns the copies in a tier that `verify` can check, in order of their segments."""
        return [CopyPiece(tier, state) for state in self._named(tier)]

    def verify(self, piece: CopyPiece) -> CopyReport:
        """Checks that a copy exists as recorded, and verifies its content."""
        verify_content = self._verify_object if piece.tier == 2 else self._verify_file
        return self._report(piece.state, piece.tier, verify_content)

    def chunk_objects(self, manifest_log: ManifestLog) -> ChunkObjects:
        """Returns a check of the Tier 2 objects that hold the manifest log's own chunks."""
        prefix = self._services.config.prefix
        return ChunkObjects(manifest_log, self._object_store, prefix=prefix, place=self._place)

    def _named(self, tier: int) -> Iterator[SegmentState]:
        for state in self._states.values():
            is_being_deleted = tier == 2 and state.pending & Pending.DELETE
            if state.residency & TIERS[tier] and not is_being_deleted:
                yield state

    def _report(
        self, state: SegmentState, tier: int, check: Callable[[SegmentState], int | None]
    ) -> CopyReport:
        path = self._path(state, tier)
        records: int | None = None
        problem = None
        try:
            records = check(state)
        except NotFound:
            if self._is_still_named(state, tier):
                problem = f"the copy of segment {state.segment_id} is missing"
        except DataError as error:
            place = "" if error.offset is None else f"at byte {error.offset}: "
            facts = "" if error.expected is None else f", expected {error.expected}"
            facts += "" if error.found is None else f", found {error.found}"
            problem = f"{place}{error.problem}{facts}"
        reported = None if problem is None else Problem(path, None, 0, Verdict.CORRUPT, problem)
        has_local = bool(state.residency & (TIERS[0] | TIERS[1]))
        return CopyReport(state.segment_id, tier, path, state.key, has_local, records, reported)

    def _path(self, state: SegmentState, tier: int) -> str:
        if tier == 2:
            return f"{self._place}/{state.key}"
        return self._warm.get(state.segment_id, self._paths.warm)

    def _is_still_named(self, state: SegmentState, tier: int) -> bool:
        """Returns whether the manifest log, read again, still names the copy.

        Returns False if the manifest log is switched off, because then it does not record which
        copies retention removed. If `log.json` is missing or damaged, the manifest log counts as
        switched on. Returns True if the segment's state cannot be found because of damage.
        """
        with suppress(NotFound, DataError):
            if not load_identity(self._disk, self._paths).manifest_log:
                return False
        states, problems = recorded(self._disk, self._paths)
        newer = states.get(state.segment_id)
        if newer is None:
            return bool(problems)
        return newer.key == state.key and bool(newer.residency & TIERS[tier])

    # Warm files.

    def _look_at_file(self, state: SegmentState) -> None:
        with self._disk.open(self._path_of_file(state)) as file:
            check_compressed_size(state, file.size())

    def _verify_file(self, state: SegmentState) -> int:
        with self._disk.open(self._path_of_file(state)) as file:
            return verify_copy(FileSource(file), state)

    def _path_of_file(self, state: SegmentState) -> str:
        path = self._warm.get(state.segment_id)
        if path is None:  # it may have been created since the folder was listed
            self._warm = warm_files(self._disk, self._paths)
            path = self._warm.get(state.segment_id)
        if path is None:
            raise NotFound(
                f"{self._paths.warm}: there is no warm file for segment {state.segment_id}"
            )
        return path

    # Objects.

    def _look_at_object(self, state: SegmentState) -> None:
        self._found_object(state)

    def _verify_object(self, state: SegmentState) -> int:
        info = self._found_object(state)
        store = self._object_store()
        return verify_copy(ObjectSource(store, state.key, size=info.size), state)

    def _found_object(self, state: SegmentState) -> ObjectInfo:
        info = self._object_store().head(state.key)
        check_compressed_size(state, info.size)
        metadata = info.metadata or {}
        if CRC64 not in metadata:
            raise Corrupt("the object has no checksum", expected=f"metadata {CRC64}")
        recorded = crc64_text(state.segment_crc64)
        if metadata.get(SEGMENT_CRC64) != recorded:
            raise Corrupt(
                "the checksum of the segment in the object's metadata is missing or wrong",
                expected=f"checksum {recorded}",
                found=metadata.get(SEGMENT_CRC64, "none"),
            )
        return info

    def _object_store(self) -> ObjectStore:
        if self._store is None:
            self._store = self._services.store(self._address)
        return self._store
