"""Verifying the copies of a log's segments: its warm files, and its objects in Tier 2.

`look` asks only whether they are there, with the size and the checksums that were recorded.
`verify` reads and inflates all of one too, and compares the payload with the segment's checksum.

Nothing is changed and no lock is taken. A copy that is gone was perhaps let go of meanwhile: what
is recorded of it is looked up again before it is called missing. A store that does not answer is
a `Tier2Error`, and says nothing about its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

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
    recorded_states,
    tier2_address,
    tier2_place,
    warm_files,
)
from lakebed.store.verification import Problem

SEGMENT_CRC64 = "segment-crc64"  # of an object's metadata: the checksum of the segment's payload


class CopyPiece(NamedTuple):
    """One copy of a segment, as it is recorded: all that its check needs."""

    tier: int
    state: SegmentState


class CopyReport(NamedTuple):
    """One copy of a segment."""

    segment_id: int
    tier: int
    path: str  # of an object: its address and key
    key: str  # of the object
    has_local: bool  # whether there is a copy on this disk
    records: int | None  # None if it was not read, or is not whole
    problem: Problem | None


@dataclass
class CopiesReport:
    """What a look at all of them found, and at the chunks of the manifest log in Tier 2."""

    warm_files: int = 0
    objects: int = 0
    chunks: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreached: Tier2Error | None = None  # why not all objects were looked at


def check_copies(store: ReadOnlyStore, found: ManifestLog, *, progress: Progress) -> CopiesReport:
    """Whether all copies are there that the manifest log of a log names, its own included."""
    report = CopiesReport()
    copies = Copies(store, found.paths, recorded_states(store.disk, found.paths))
    total = copies.count(1) + copies.count(2)
    for copy in copies.check(1):
        report.warm_files += 1
        report.problems += [copy.problem] if copy.problem else []
    try:
        for copy in copies.check(2):  # asks the store, one by one
            report.objects += 1
            report.problems += [copy.problem] if copy.problem else []
            progress(report.warm_files + report.objects, total)
        _check_chunks(copies, found, report)
    except Tier2Error as error:
        report.unreached = error
    return report


def check_chunk_objects(store: ReadOnlyStore, found: ManifestLog) -> CopiesReport:
    """Whether the chunks of a manifest log are in Tier 2, that were brought there."""
    report = CopiesReport()
    try:
        _check_chunks(Copies(store, found.paths, {}), found, report)
    except Tier2Error as error:
        report.unreached = error
    return report


def _check_chunks(copies: Copies, found: ManifestLog, report: CopiesReport) -> None:
    chunks = copies.chunk_objects(found)
    for problem in chunks.check():
        report.chunks += 1
        report.problems += [problem] if problem else []
    report.notes += chunks.notes()


class Copies:
    """The copies that one look at the manifest log names.

    Those to `verify` may be named by another look, elsewhere.
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
        """Whether they are there and as they were recorded, by what can be had without reading."""
        looked = self._look_at_object if tier == 2 else self._look_at_file
        for state in self._named(tier):
            yield self._report(state, tier, looked)

    def pieces(self, tier: int) -> list[CopyPiece]:
        """What there is to verify, in order."""
        return [CopyPiece(tier, state) for state in self._named(tier)]

    def verify(self, piece: CopyPiece) -> CopyReport:
        """The same, and everything in it."""
        verified = self._verify_object if piece.tier == 2 else self._verify_file
        return self._report(piece.state, piece.tier, verified)

    def chunk_objects(self, found: ManifestLog) -> ChunkObjects:
        """Those of the manifest log itself."""
        prefix = self._services.config.prefix
        return ChunkObjects(found, self._object_store, prefix=prefix, place=self._place)

    def _named(self, tier: int) -> Iterator[SegmentState]:
        for state in self._states.values():
            is_going = tier == 2 and state.pending & Pending.DELETE
            if state.residency & TIERS[tier] and not is_going:
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
                problem = f"segment {state.segment_id} should be there, and is not"
        except DataError as error:
            place = "" if error.offset is None else f"at byte {error.offset}: "
            facts = "" if error.expected is None else f", expected {error.expected}"
            facts += "" if error.found is None else f", found {error.found}"
            problem = f"{place}{error.problem}{facts}"
        found = None if problem is None else Problem(path, None, 0, Verdict.CORRUPT, problem)
        has_local = bool(state.residency & (TIERS[0] | TIERS[1]))
        return CopyReport(state.segment_id, tier, path, state.key, has_local, records, found)

    def _path(self, state: SegmentState, tier: int) -> str:
        if tier == 2:
            return f"{self._place}/{state.key}"
        return self._warm.get(state.segment_id, self._paths.warm)

    def _is_still_named(self, state: SegmentState, tier: int) -> bool:
        again = recorded_states(self._disk, self._paths).get(state.segment_id)
        if again is None or again.key != state.key:
            return False
        return bool(again.residency & TIERS[tier])

    # Warm files.

    def _look_at_file(self, state: SegmentState) -> None:
        with self._disk.open(self._path_of_file(state)) as file:
            check_compressed_size(state, file.size())

    def _verify_file(self, state: SegmentState) -> int:
        with self._disk.open(self._path_of_file(state)) as file:
            return verify_copy(FileSource(file), state)

    def _path_of_file(self, state: SegmentState) -> str:
        path = self._warm.get(state.segment_id)
        if path is None:  # made since the folder was listed?
            self._warm = warm_files(self._disk, self._paths)
            path = self._warm.get(state.segment_id)
        if path is None:
            raise NotFound(f"{self._paths.warm}: no warm file of segment {state.segment_id}")
        return path

    # Objects.

    def _look_at_object(self, state: SegmentState) -> None:
        self._found_object(state)

    def _verify_object(self, state: SegmentState) -> int:
        found = self._found_object(state)
        store = self._object_store()
        return verify_copy(ObjectSource(store, state.key, size=found.size), state)

    def _found_object(self, state: SegmentState) -> ObjectInfo:
        found = self._object_store().head(state.key)
        check_compressed_size(state, found.size)
        metadata = found.metadata or {}
        if CRC64 not in metadata:
            raise Corrupt("an object without its checksum", expected=f"metadata {CRC64}")
        recorded = crc64_text(state.segment_crc64)
        if metadata.get(SEGMENT_CRC64) != recorded:
            raise Corrupt(
                "an object of another segment",
                expected=f"checksum {recorded}",
                found=metadata.get(SEGMENT_CRC64, "none"),
            )
        return found

    def _object_store(self) -> ObjectStore:
        if self._store is None:
            self._store = self._services.store(self._address)
        return self._store
