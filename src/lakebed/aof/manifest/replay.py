"""From the files of a manifest log to the state of its segments, now or as of an earlier moment.

The newest good snapshot gives the state up to a place in the log; the records from there on are
folded in. A snapshot that is damaged is passed over for the one before it, or for the start.

- A chunk that is damaged, or one that is missing, is left out. The segments it names are told, for
  what they are now must be found out from the files themselves.
- Of the last chunk, if it is not sealed, everything up to the first bad record is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.aof.manifest.chunk import InspectedChunk, PlacedRecord, Verdict, salvage
from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    RECORDS_START,
    SegmentOpened,
    SnapshotMarker,
)
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Position,
    Unknown,
)
from lakebed.aof.manifest.snapshot import Snapshot
from lakebed.base.errors import DataError, NotFound, UnknownVersion

SEGMENT_ID_MAX = (1 << 32) - 1
BEGINNING = Position(0, RECORDS_START)


@dataclass(frozen=True)
class Moment:
    """Up to where a replay goes: a place in the log, a time, both, or (neither) its end."""

    position: Position | None = None
    timestamp_ms: int | None = None

    def includes(self, position: Position, record: ManifestRecord) -> bool:
        return (self.position is None or position < self.position) and (
            self.timestamp_ms is None or record.timestamp_ms <= self.timestamp_ms
        )

    def is_after(self, snapshot: Snapshot) -> bool:
        """Whether all that the snapshot holds is included."""
        return (self.position is None or snapshot.position <= self.position) and (
            self.timestamp_ms is None or snapshot.index.last_timestamp_ms <= self.timestamp_ms
        )


@dataclass(frozen=True)
class Damage:
    """A chunk whose records were not used, and the segments they were about, if that is known."""

    chunk_index: int
    problem: str
    segment_ids: frozenset[int]


@dataclass
class ReplayResult:
    """What a replay found."""

    index: ManifestIndex
    snapshot: Snapshot | None  # from which it began
    end: Position  # behind the last record
    record_count: int = 0  # replayed
    news_count: int = 0  # of those, the ones that are not about the manifest log itself
    next_ordinal: int = 0
    sealed_count: int = 0  # sealed chunks that were replayed
    last: InspectedChunk | None = None  # the newest chunk
    snapshot_id_max: int = 0  # the highest number any snapshot was given
    damages: list[Damage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    crc_error_count: int = 0


class Plausibility:
    """Which records are believed where no checksum covers their headers.

    Their types are known, their times do not fall, and they speak of segments that were opened.
    Where chunks before them are lost, `index` is not complete: any segment may have been opened.
    Records before `start` are in `index` already: whatever they say, it counts no more.
    """

    def __init__(
        self, index: ManifestIndex, *, is_complete: bool, start: Position = BEGINNING
    ) -> None:
        self._start = start
        self._last_ms = index.last_timestamp_ms
        self._highest = SEGMENT_ID_MAX
        if is_complete:
            self._highest = max((state.segment_id for state in index.segments()), default=-1)

    def __call__(self, placed: PlacedRecord) -> bool:
        position, record = placed
        if position < self._start:
            return True
        if isinstance(record.payload, Unknown) or record.flags:
            return False
        if record.timestamp_ms < self._last_ms:
            return False
        self._last_ms = record.timestamp_ms
        if isinstance(record.payload, SegmentOpened):
            is_opening = (
                record.segment_id <= SEGMENT_ID_MAX
                and record.logical_offset == record.payload.base_offset
            )
            if is_opening:
                self._highest = max(self._highest, record.segment_id)
            return is_opening
        return record.segment_id == MANIFEST_ITSELF or record.segment_id <= self._highest


def replay(reader: ManifestReader, until: Moment | None = None) -> ReplayResult:
    """The state as of that moment; `UnknownVersion` if a newer program wrote the log."""
    until = until or Moment()
    problems: list[str] = []
    ids = reader.snapshot_ids()
    snapshot = _best_snapshot(reader, ids, until, problems)
    start = snapshot.position if snapshot else BEGINNING
    result = ReplayResult(
        snapshot.index.copy() if snapshot else ManifestIndex(),
        snapshot,
        end=start,
        next_ordinal=snapshot.index.record_count if snapshot else 0,
        snapshot_id_max=max(ids, default=0),
        problems=problems,
    )
    indexes = [index for index in reader.chunk_indexes() if index >= start.chunk_index]
    _check_gaps(reader, indexes, start, result)
    for index in indexes:
        judged = reader.chunk(
            index,
            is_last=index == indexes[-1],
            plausibility=lambda: Plausibility(
                result.index, is_complete=not result.damages, start=start
            ),
        )
        if not _fold_chunk(reader, judged, start, until, result):
            break
    return result


def _best_snapshot(
    reader: ManifestReader, ids: list[int], until: Moment, problems: list[str]
) -> Snapshot | None:
    for snapshot_id in reversed(ids):
        try:
            snapshot = reader.snapshot(snapshot_id)
        except UnknownVersion:
            raise
        except NotFound:
            continue  # its writer removed it meanwhile
        except DataError as error:
            problems.append(f"a snapshot is not used: {error}")
            continue
        if until.is_after(snapshot):
            return snapshot
    return None


def _check_gaps(
    reader: ManifestReader, indexes: list[int], start: Position, result: ReplayResult
) -> None:
    """Chunks that should be there and are not."""
    expected = start.chunk_index
    if not indexes and start.offset > RECORDS_START:
        indexes = [expected + 1]
    for index in indexes:
        if index > expected:
            problem = f"{reader.paths.chunk(expected)}: missing"
            if index > expected + 1:
                problem += f", with all up to number {index - 1}"
            result.damages.append(Damage(expected, problem, frozenset()))
            result.problems.append(problem)
        expected = index + 1


def _fold_chunk(
    reader: ManifestReader,
    judged: InspectedChunk,
    start: Position,
    until: Moment,
    result: ReplayResult,
) -> bool:
    """Whether the replay goes on behind this chunk."""
    result.last = judged
    if judged.verdict is not Verdict.WHOLE:
        result.crc_error_count += 1
        place = f"{reader.paths.chunk(judged.chunk_index)}: at byte {judged.end}"
        result.problems.append(f"{place}: {judged.verdict.value}: {judged.problem}")
    if not judged.is_usable:
        names = frozenset(
            placed.record.segment_id for placed in salvage(judged.data, judged.chunk_index)
        )
        result.damages.append(Damage(judged.chunk_index, judged.problem, names - {MANIFEST_ITSELF}))
        result.sealed_count += 1
        result.end = max(result.end, Position(judged.chunk_index, judged.end))
        return True
    if judged.header is not None:
        _check_ordinal(reader, judged, start, result)
        result.next_ordinal = judged.header.base_record
    apply = result.index.apply
    for position, record in judged.records:
        if position >= start:
            if not until.includes(position, record):
                result.end = max(result.end, position)
                return False
            apply(record)
            result.record_count += 1
            if record.segment_id != MANIFEST_ITSELF:
                result.news_count += 1
            elif isinstance(record.payload, SnapshotMarker):
                snapshot_id = record.payload.snapshot_id
                result.snapshot_id_max = max(result.snapshot_id_max, snapshot_id)
        result.next_ordinal += 1
    result.sealed_count += judged.is_sealed
    result.end = max(result.end, Position(judged.chunk_index, judged.end))
    return True


def _check_ordinal(
    reader: ManifestReader, judged: InspectedChunk, start: Position, result: ReplayResult
) -> None:
    """Each chunk begins with the record behind the last of the chunk before."""
    assert judged.header is not None
    found = judged.header.base_record
    is_known = judged.chunk_index > start.chunk_index and not result.damages
    if is_known and found != result.next_ordinal:
        result.problems.append(
            f"{reader.paths.chunk(judged.chunk_index)}: begins with record {found}, "
            f"but {result.next_ordinal} was expected"
        )
