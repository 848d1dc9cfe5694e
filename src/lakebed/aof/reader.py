"""Reads a log through a `LogView`: forward, backward, by id or by time.

Invariants:

- nothing at or after the durable end is ever returned; a read uses the durable end at the time when
  it began;
- the checksum of every returned payload was verified. Timestamps and ext_ids are covered only by
  the checksum in a sealed segment's footer, which readers do not verify;
- records are returned in log order, or in reverse order by `read_backward`, without repetitions and
  without omissions, unless the caller skips damage;
- memory is bounded by the batch size or the longest record, whichever is larger, except that
  interchange segments are held in memory as a whole, and that the search for the next record after
  damage may read the rest of a segment at once.

A payload may contain bytes that look like records. Ids that the log assigned never point into a
payload, but an id that a caller made up may: a read with such an id returns the bytes there as a
record.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.aof.damage import DamagePolicy, OnSkipped, SkippedRange
from lakebed.aof.end_scan import scan_end
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import SEGMENT_OFFSET_MAX, RecordId
from lakebed.aof.segment_reader import SegmentReader, open_segment
from lakebed.aof.span import Span, check_alignment, locate, oldest, plan, records_end
from lakebed.aof.sparse_index import load_index, start_for_timestamp
from lakebed.aof.view import LogView, SegmentInfo
from lakebed.aof.walk import Walk, why_no_record
from lakebed.base.errors import Corrupt, NotFound
from lakebed.base.files.handles import Handles, Lease
from lakebed.base.units import KIB, MIB
from lakebed.kernels import Stop

HANDLES_MAX = 64
WINDOW_BYTES = 2 * MIB
_GET_BYTES = 4 * KIB  # how much is read for a record of unknown length

_Piece = tuple[int, int] | SkippedRange


class LogReader:
    """Reads the records of one log, and keeps up to `handles_max` segment files open until closed.

    Thread-safe, but an iterator that it returned may be used by only one thread.
    """

    def __init__(
        self, view: LogView, *, handles_max: int = HANDLES_MAX, window_bytes: int = WINDOW_BYTES
    ) -> None:
        self._view = view
        self._window_bytes = window_bytes
        self._handles = Handles(
            self._open,
            _handle_key,
            mutex=view.runner.mutex(),
            count_max=handles_max,
        )

    def _open(self, info: SegmentInfo) -> SegmentReader:
        cold = self._view.cold
        return open_segment(self._view.disk, info, cold.bytes_of if cold else None)

    @property
    def open_count(self) -> int:
        """The number of segments that are currently kept open."""
        return len(self._handles)

    def get(self, record_id: RecordId) -> Record:
        """Returns the record with that id.

        Raises `NotFound` if no record begins at the position that the id gives, if its segment was
        removed, or if the record is not durable yet. Raises `Corrupt` if the record is damaged.
        """
        record_id = RecordId(record_id)
        durable_end = self._view.durable_end()
        segments = self._view.segments()
        index = locate(segments, record_id)
        check_alignment(record_id)
        if record_id >= durable_end:
            raise NotFound(f"position {record_id}: the log's durable records end at {durable_end}")
        info = segments[index]
        known_end = records_end(segments, index, durable_end)
        offset = record_id.segment_offset
        with self._lease(info) as reader:
            end = known_end if known_end is not None else _records_end(reader)
            if offset >= end:
                raise NotFound(f"record {record_id}: its segment's records end at offset {end}")
            result = reader.scan(offset, end, bytes_max=_GET_BYTES, count_max=1)
            if isinstance(result, Stop):
                raise why_no_record(reader, info, offset, end, result)
            record = result.record(0)
            if record.record_id != record_id:
                raise NotFound(
                    f"record {record_id}: no record begins there, or compaction removed it"
                )
            return record

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[RecordBatch]:
        """Yields the durable records of `[start, end)` in columnar batches, oldest first.

        By default, yields all records from the oldest to the current durable end. An `end` after
        the durable end is replaced by the durable end. `start` and `end` must each be the start or
        the end of a record or of a segment. Otherwise raises `NotFound`: for `start`, in this call
        or at the first batch; for `end`, when the read reaches the record that contains it. If
        `end` is before `start`, raises `InputError`.

        A batch has about `batch_bytes_max` bytes at most, by default the reader's `window_bytes`,
        or one longer record. Raises `Corrupt` at damaged bytes; with `skip_damage`, skips them and
        calls `on_skipped` for each skipped range.
        """
        policy = DamagePolicy(skip=skip_damage, on_skipped=on_skipped)
        spans = self._plan(start, end, policy)
        return self._batches(spans, policy, batch_bytes_max or self._window_bytes)

    def read(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[Record]:
        """Yields the durable records of `[start, end)`, oldest first; see `read_batches`."""
        batches = self.read_batches(start, end, skip_damage=skip_damage, on_skipped=on_skipped)
        return (record for batch in batches for record in batch)

    def read_backward(
        self,
        start: RecordId | None = None,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[Record]:
        """Yields the durable records before `start`, or all of them by default, newest first.

        Each segment is read twice: forward, to divide it into batches that begin with a record, and
        then batch by batch from the last to the first.
        """
        policy = DamagePolicy(skip=skip_damage, on_skipped=on_skipped)
        spans = self._plan(None, start, policy)
        if start:
            # Raises `NotFound` if `start` is after the durable end, which the plan above allows.
            self._plan(start, None, DamagePolicy(skip=skip_damage))
        return self._backward(spans, policy)

    def seek_timestamp(
        self,
        timestamp_ns: int,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> RecordId:
        """Returns the position of the first record with that timestamp or a later one.

        "First" means first in the log: timestamps need not be in order. Returns the durable end if
        there is no such record. Sealed segments whose footer shows that all their records are older
        are not read.
        """
        policy = DamagePolicy(skip=skip_damage, on_skipped=on_skipped)
        durable_end = self._durable_end(policy)
        for span in plan(self._view.segments(), durable_end, start=None, end=None):
            if span.info.is_sealed and self._is_older(span.info, timestamp_ns):
                continue
            if span.info.is_sealed:
                span = self._shortened(span, timestamp_ns)
            for batch in self._walk(span, policy, self._window_bytes):
                if max(batch.timestamps) >= timestamp_ns:
                    stamps = enumerate(batch.timestamps)
                    return batch.record_id(next(i for i, at in stamps if at >= timestamp_ns))
        return durable_end

    def close(self) -> None:
        """Closes the files. Idempotent; batches that were returned stay valid."""
        self._handles.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plan(
        self, start: RecordId | None, end: RecordId | None, policy: DamagePolicy
    ) -> list[Span]:
        # The durable end is read first, so that the segments listed afterwards include it.
        durable_end = self._durable_end(policy)
        return plan(
            self._view.segments(),
            durable_end,
            start=None if start is None else RecordId(start),
            end=None if end is None else RecordId(end),
        )

    def _durable_end(self, policy: DamagePolicy) -> RecordId:
        """Returns the durable end.

        If the newest segment is missing and damage is skipped, reports the missing segment and
        returns the end of the remaining segments.
        """
        try:
            return self._view.durable_end()
        except Corrupt as error:
            segments = self._view.segments()
            if not segments:
                raise
            newest = segments[-1]
            policy.report(SkippedRange(newest.segment_id + 1, newest.path, 0, 0, error))
            return scan_end(self._view.disk, segments, confirmed=None)

    def _walk(self, span: Span, policy: DamagePolicy, batch_bytes_max: int) -> Walk:
        return Walk(span, lease=self._lease, policy=policy, batch_bytes_max=batch_bytes_max)

    def _batches(
        self, spans: list[Span], policy: DamagePolicy, batch_bytes_max: int
    ) -> Iterator[RecordBatch]:
        for span in spans:
            yield from self._walk(span, policy, batch_bytes_max)

    def _backward(self, spans: list[Span], policy: DamagePolicy) -> Iterator[Record]:
        for span in reversed(spans):
            for piece in reversed(self._pieces(span)):
                if isinstance(piece, SkippedRange):
                    policy.report(piece)
                    continue
                batch = self._rescan(span.info, *piece)
                yield from map(batch.record, reversed(range(len(batch))))

    def _pieces(self, span: Span) -> list[_Piece]:
        """Returns the bounds of each batch in a span, and the damaged ranges between batches."""
        pieces: list[_Piece] = []
        collect_damage = DamagePolicy(skip=True, on_skipped=pieces.append)
        for batch in self._walk(span, collect_damage, self._window_bytes):
            pieces.append((batch.start.segment_offset, batch.end.segment_offset))
        return pieces

    def _rescan(self, info: SegmentInfo, start: int, end: int) -> RecordBatch:
        """Reads again the batch that an earlier scan found in `[start, end)`."""
        with self._lease(info) as reader:
            batch = reader.scan(start, end, bytes_max=SEGMENT_OFFSET_MAX)
        if isinstance(batch, Stop) or batch.end.segment_offset != end:
            offset = start if isinstance(batch, Stop) else batch.end.segment_offset
            raise Corrupt(
                "the segment changed while it was being read", path=info.path, offset=offset
            )
        return batch

    def _shortened(self, span: Span, timestamp_ns: int) -> Span:
        """Returns the span without leading records that are older according to the sparse index."""
        info = span.info
        entries = load_index(self._view.disk, info.path, segment_id=info.segment_id)
        start = start_for_timestamp(entries, timestamp_ns)
        is_inside = span.records_end is None or start < span.records_end
        return span._replace(start=start) if start > span.start and is_inside else span

    def _is_older(self, info: SegmentInfo, timestamp_ns: int) -> bool:
        try:
            with self._lease(info) as reader:
                newest = reader.timestamp_max
        except Corrupt:
            return False  # the walk that follows reports the damage
        return newest is not None and newest < timestamp_ns

    def _lease(self, info: SegmentInfo) -> Lease[SegmentReader]:
        self._view.on_used(info)  # at each read, also of segments that are already open
        try:
            return self._handles.lease(info)
        except NotFound:
            moved = self._find_again(info)
            self._view.on_used(moved)
            return self._handles.lease(moved)

    def _find_again(self, info: SegmentInfo) -> SegmentInfo:
        """Returns the current entry of a segment whose file is gone, because it may have moved.

        Raises `NotFound` if the segment was removed from the log.
        """
        self._view.refresh()
        segments = self._view.segments()
        position = RecordId.from_parts(info.segment_id, 0)
        current = segments[locate(segments, position)]
        is_in_place = current.path == info.path and not current.tier
        if is_in_place and not self._view.disk.exists(info.path):
            raise NotFound(
                f"{info.path}: the segment was removed; the oldest record is at {oldest(segments)}"
            )
        return current


def _records_end(reader: SegmentReader) -> int:
    end = reader.records_end
    return reader.room_end if end is None else end


def _handle_key(info: SegmentInfo) -> tuple[str, bool]:
    # A segment that was opened before it was sealed is opened again, because it now has a footer.
    return info.path, info.is_sealed
