"""Reads a log through a `LogView`: forward, backward, by id, by time.

Invariants:

- nothing at or behind the durable end is ever returned; a read that is under way keeps the
  durable end it began with;
- every payload returned has been checked against its checksum. Timestamp and ext_id are covered
  by a sealed segment's footer alone, which reading does not check;
- records come in log order, none twice and none left out, unless damage is skipped by request;
- memory is bounded by a batch's bytes or the longest record, whichever is larger.

A payload may hold bytes that look like records. An id that the log gave out never leads into one;
an id made up by hand can.
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
_GET_BYTES = 4 * KIB  # what is read for a record whose length is not known yet

_Piece = tuple[int, int] | SkippedRange


class LogReader:
    """Thread-safe; an iterator it gave belongs to one thread. Close it to close its files."""

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
        """Segments kept open now."""
        return len(self._handles)

    def get(self, record_id: RecordId) -> Record:
        """The record with that id.

        `NotFound` if none begins there, its segment is gone, or it is not durable (yet);
        `Corrupt` if one does and it is damaged.
        """
        record_id = RecordId(record_id)
        durable_end = self._view.durable_end()
        segments = self._view.segments()
        index = locate(segments, record_id)
        check_alignment(record_id)
        if record_id >= durable_end:
            raise NotFound(f"{record_id}: beyond the durable end, {durable_end}")
        info = segments[index]
        known_end = records_end(segments, index, durable_end)
        offset = record_id.segment_offset
        with self._lease(info) as reading:
            end = known_end if known_end is not None else _records_end(reading)
            if offset >= end:
                raise NotFound(f"{record_id}: the segment's records end at {end}")
            found = reading.scan(offset, end, bytes_max=_GET_BYTES, count_max=1)
            if isinstance(found, Stop):
                raise why_no_record(reading, info, offset, end, found)
            record = found.record(0)
            if record.record_id != record_id:
                raise NotFound(f"{record_id}: no record begins there, or it was left out")
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
        """The durable records of `[start, end)` as columns, oldest first.

        From the oldest record, and to the durable end of now, unless said otherwise; an `end`
        behind that is that. Both are record ids, or starts or ends of segments: `NotFound` if a
        start is anything else, at once or with the first batch, and for an end inside a record
        when it is reached. `Corrupt` at damage, or with `skip_damage` a call of `on_skipped` for
        each range that was passed over.
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
        """The durable records of `[start, end)`, oldest first; see `read_batches`."""
        batches = self.read_batches(start, end, skip_damage=skip_damage, on_skipped=on_skipped)
        return (record for batch in batches for record in batch)

    def read_backward(
        self,
        start: RecordId | None = None,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[Record]:
        """The durable records before `start`, newest first; from the durable end by default.

        Records can only be walked forward: each segment is scanned once to learn where windows
        begin, then the windows are read from the last to the first.
        """
        policy = DamagePolicy(skip=skip_damage, on_skipped=on_skipped)
        spans = self._plan(None, start, policy)
        if start:
            # A read may end anywhere behind the durable end, but cannot begin there.
            self._plan(start, None, DamagePolicy(skip=skip_damage))
        return self._backward(spans, policy)

    def seek_timestamp(
        self,
        timestamp_ns: int,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> RecordId:
        """The first record, in log order, whose timestamp is at least that.

        The durable end, if there is none. Timestamps need not be in order; a sealed segment is
        passed over if its largest is too small.
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
        """Idempotent. Batches that were handed out stay valid."""
        self._handles.close()

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plan(
        self, start: RecordId | None, end: RecordId | None, policy: DamagePolicy
    ) -> list[Span]:
        # The durable end first: the segments listed after it contain it.
        durable_end = self._durable_end(policy)
        return plan(
            self._view.segments(),
            durable_end,
            start=None if start is None else RecordId(start),
            end=None if end is None else RecordId(end),
        )

    def _durable_end(self, policy: DamagePolicy) -> RecordId:
        """Where damage is skipped and the newest segment is missing: the end of those before it."""
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
        """Where the batches of a span begin and end, and the damage between them, in order."""
        pieces: list[_Piece] = []
        noting = DamagePolicy(skip=True, on_skipped=pieces.append)
        for batch in self._walk(span, noting, self._window_bytes):
            pieces.append((batch.start.segment_offset, batch.end.segment_offset))
        return pieces

    def _rescan(self, info: SegmentInfo, start: int, end: int) -> RecordBatch:
        """The batch that was found there before, whole."""
        with self._lease(info) as reading:
            found = reading.scan(start, end, bytes_max=SEGMENT_OFFSET_MAX)
        if isinstance(found, Stop) or found.end.segment_offset != end:
            offset = start if isinstance(found, Stop) else found.end.segment_offset
            raise Corrupt("the segment changed while it was read", path=info.path, offset=offset)
        return found

    def _shortened(self, span: Span, timestamp_ns: int) -> Span:
        """Without the records that a sparse index shows to be older."""
        info = span.info
        entries = load_index(self._view.disk, info.path, segment_id=info.segment_id)
        start = start_for_timestamp(entries, timestamp_ns)
        is_inside = span.records_end is None or start < span.records_end
        return span._replace(start=start) if start > span.start and is_inside else span

    def _is_older(self, info: SegmentInfo, timestamp_ns: int) -> bool:
        try:
            with self._lease(info) as reading:
                newest = reading.timestamp_max
        except Corrupt:
            return False  # the walk that follows meets it, and says what is wrong
        return newest is not None and newest < timestamp_ns

    def _lease(self, info: SegmentInfo) -> Lease[SegmentReader]:
        self._view.on_used(info)  # at each read: a segment that is kept open is in use, too
        try:
            return self._handles.lease(info)
        except NotFound:
            moved = self._find_again(info)
            self._view.on_used(moved)
            return self._handles.lease(moved)

    def _find_again(self, info: SegmentInfo) -> SegmentInfo:
        """Where a segment is whose file was moved; `NotFound` if it was removed."""
        self._view.refresh()
        segments = self._view.segments()
        position = RecordId.from_parts(info.segment_id, 0)
        found = segments[locate(segments, position)]
        is_in_place = found.path == info.path and not found.tier
        if is_in_place and not self._view.disk.exists(info.path):
            raise NotFound(f"{info.path}: removed; the oldest record is at {oldest(segments)}")
        return found


def _records_end(reading: SegmentReader) -> int:
    end = reading.records_end
    return reading.room_end if end is None else end


def _handle_key(info: SegmentInfo) -> tuple[str, bool]:
    # A segment that was sealed since is opened anew, and has a footer then.
    return info.path, info.is_sealed
