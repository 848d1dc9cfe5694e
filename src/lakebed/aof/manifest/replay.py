"""Computes the state of a log's segments, now or at an earlier moment, from its manifest log.

The newest good snapshot gives the state up to a position; the records after that position are
applied to it. If a snapshot is damaged, the previous snapshot is used; without a good snapshot, the
replay begins at the first record.

- A damaged or missing chunk is left out. The result lists the segments that its records are about,
  as far as they can be read, because their state must be found in another way.
- Of the last chunk, if it is not sealed, all records before the first bad record are used.
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
_ATTEMPTS_MAX = 3
BEGINNING = Position(0, RECORDS_START)


@dataclass(frozen=True)
class Moment:
    """Where a replay stops: at a position, at a time, or, if both are given, at the earlier one.

    A record at `position` is not replayed, while records with exactly the time `timestamp_ms` are.
    If neither is given, the replay goes to the end of the manifest log.
    """

    position: Position | None = None
    timestamp_ms: int | None = None

    def includes(self, position: Position, record: ManifestRecord) -> bool:
        return (self.position is None or position < self.position) and (
            self.timestamp_ms is None or record.timestamp_ms <= self.timestamp_ms
        )

    def is_after(self, snapshot: Snapshot) -> bool:
        """Returns whether all records that the snapshot covers are before this moment."""
        return (self.position is None or snapshot.position <= self.position) and (
            self.timestamp_ms is None or snapshot.index.last_timestamp_ms <= self.timestamp_ms
        )


@dataclass(frozen=True)
class Damage:
    """A chunk that was not replayed, because it is damaged or missing.

    If several chunks in a row are missing, this is the first of them. `segment_ids` are the
    segments that the chunk's records are about, as far as they can be read.
    """

    chunk_index: int
    problem: str
    segment_ids: frozenset[int]


@dataclass
class ReplayResult:
    """The result of replaying a manifest log."""

    index: ManifestIndex
    snapshot: Snapshot | None  # where the replay began
    end: Position  # after the last record
    record_count: int = 0  # records replayed
    news_count: int = 0  # replayed records about segments, not about the manifest log itself
    next_ordinal: int = 0  # the number of records before the next one, since the log's creation
    sealed_count: int = 0  # sealed chunks that were replayed, and damaged chunks
    last: InspectedChunk | None = None  # the newest chunk
    snapshot_id_max: int = 0  # the highest id of any snapshot
    damages: list[Damage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    crc_error_count: int = 0  # chunks that are torn or corrupt


class Plausibility:
    """Decides which records to trust in a chunk whose checksum does not match.

    A record's own checksum covers only its payload, so its header is checked: the type must be
    known, the flags must be 0, the time must not be earlier than the previous record's, and the
    segment must have been opened. If earlier chunks are lost (`is_complete` is False), any segment
    may have been opened. Records before `start` are already in `index` and are always trusted.
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
    """Replays the manifest log up to that moment, by default to its end.

    Starts over, up to twice, if files seem to be missing because a writer has just removed them.
    Raises `UnknownVersion` if it needs a file with a version that this program cannot read.
    """
    until = until or Moment()
    for _ in range(_ATTEMPTS_MAX - 1):
        listed = _listed(reader)
        result = _replay(reader, until)
        if not result.damages or _listed(reader) == listed:
            return result
    return _replay(reader, until)


def _listed(reader: ManifestReader) -> tuple[list[int], list[int]]:
    return reader.snapshot_ids(), reader.chunk_indexes()


def _replay(reader: ManifestReader, until: Moment) -> ReplayResult:
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
        try:
            inspected = reader.chunk(
                index,
                is_last=index == indexes[-1],
                plausibility=lambda: Plausibility(
                    result.index, is_complete=not result.damages, start=start
                ),
            )
        except NotFound:  # it was removed after it was listed
            _add_missing(reader, index, index + 1, result)
            continue
        if not _fold_chunk(reader, inspected, start, until, result):
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
            continue  # the writer removed it meanwhile
        except DataError as error:
            problems.append(f"a damaged snapshot is ignored: {error}")
            continue
        if until.is_after(snapshot):
            return snapshot
    return None


def _check_gaps(
    reader: ManifestReader, indexes: list[int], start: Position, result: ReplayResult
) -> None:
    """Adds a `Damage` to `result` for each gap in the numbers of the chunks."""
    expected = start.chunk_index
    if not indexes and start.offset > RECORDS_START:
        indexes = [expected + 1]
    for index in indexes:
        if index > expected:
            _add_missing(reader, expected, index, result)
        expected = index + 1


def _add_missing(reader: ManifestReader, start: int, end: int, result: ReplayResult) -> None:
    """Adds a `Damage` to `result` for the missing chunks with the numbers `[start, end)`."""
    problem = "the chunk is missing"
    if end > start + 1:
        problem += f", and so are those up to number {end - 1}"
    result.damages.append(Damage(start, problem, frozenset()))
    result.problems.append(f"{reader.paths.chunk(start)}: {problem}")


def _fold_chunk(
    reader: ManifestReader,
    inspected: InspectedChunk,
    start: Position,
    until: Moment,
    result: ReplayResult,
) -> bool:
    """Applies the records of one chunk to the result.

    Returns False if the replay stops in this chunk, because it reached the moment `until`.
    """
    result.last = inspected
    if inspected.verdict is not Verdict.WHOLE:
        result.crc_error_count += 1
        place = f"{reader.paths.chunk(inspected.chunk_index)}: at byte {inspected.end}"
        result.problems.append(f"{place}: {inspected.verdict.value}: {inspected.problem}")
    if not inspected.is_usable:
        segment_ids = frozenset(
            placed.record.segment_id for placed in salvage(inspected.data, inspected.chunk_index)
        )
        result.damages.append(
            Damage(inspected.chunk_index, inspected.problem, segment_ids - {MANIFEST_ITSELF})
        )
        result.sealed_count += 1
        result.end = max(result.end, Position(inspected.chunk_index, inspected.end))
        return True
    if inspected.header is not None:
        _check_ordinal(reader, inspected, start, result)
        result.next_ordinal = inspected.header.base_record
    else:  # so far it counts the records before `start`, some of which may be in this chunk
        result.next_ordinal -= sum(position < start for position, _ in inspected.records)
    apply = result.index.apply
    for position, record in inspected.records:
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
    result.sealed_count += inspected.is_sealed
    result.end = max(result.end, Position(inspected.chunk_index, inspected.end))
    return True


def _check_ordinal(
    reader: ManifestReader, inspected: InspectedChunk, start: Position, result: ReplayResult
) -> None:
    """Adds a problem to `result` if the chunk's header gives a wrong number of earlier records."""
    assert inspected.header is not None
    base_record = inspected.header.base_record
    is_expected = inspected.chunk_index > start.chunk_index and not result.damages
    if is_expected and base_record != result.next_ordinal:
        result.problems.append(
            f"{reader.paths.chunk(inspected.chunk_index)}: the chunk begins with record "
            f"{base_record}, expected {result.next_ordinal}"
        )
