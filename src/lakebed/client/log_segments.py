"""Reads the segments of a remote log: fetches ranges of their stored bytes and decodes them.

If a segment is compressed, only the frames with the requested records are fetched. If a segment
moves to another tier during the read, the read continues in that tier. If a compressed segment is
damaged, the server may have an undamaged copy, so the remaining records of the segment are fetched
as pages, which the server reads from any copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lakebed.aof.damage import DamagePolicy
from lakebed.aof.format import FOOTER_BYTES, SEGMENT_HEADER, SEGMENT_MAGIC
from lakebed.aof.interchange_segment import InterchangeSegment, is_interchange
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment_reader import RuntimeSegment, SegmentReader
from lakebed.aof.span import Span
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.view import SegmentInfo
from lakebed.aof.walk import Walk
from lakebed.base.errors import Busy, Corrupt, DataError, NotFound
from lakebed.base.files.handles import Handles
from lakebed.base.files.windows import ByteSource, Window
from lakebed.base.runner import Runner
from lakebed.base.units import MIB

if TYPE_CHECKING:
    from lakebed.client.log import RemoteLog

WHOLE_FETCH_BYTES = 8 * MIB  # per request, for a segment that is needed whole

_HEAD_BYTES = 4096  # contains the header of every layout
_TRIES = 3  # to find a segment that moves between tiers

_log = logging.getLogger(__name__)

ReadPages = Callable[[RecordId, RecordId], Iterator[RecordBatch]]


def read_spans(
    log: RemoteLog,
    spans: Sequence[Span],
    end: RecordId,
    *,
    fetch_bytes: int,
    runner: Runner,
    read_pages: ReadPages,
) -> Iterator[RecordBatch]:
    """Yields the records of the spans in batches of about `fetch_bytes`.

    If a compressed segment is damaged, yields its remaining records before `end` from `read_pages`.
    """

    def open_segment(info: SegmentInfo) -> SegmentReader:
        return _open_segment(log, info, runner)

    opened = Handles(open_segment, _segment_id, mutex=runner.mutex(), count_max=1)
    try:
        for span in spans:
            walk = Walk(
                span,
                lease=opened.lease,
                policy=DamagePolicy(skip=False),
                batch_bytes_max=fetch_bytes,
            )
            position = RecordId.from_parts(span.info.segment_id, span.start)
            try:
                for batch in walk:
                    yield batch
                    position = batch.end
            except DataError as error:
                if not span.info.tier:
                    raise
                _log.warning(
                    "%s: reading records through the server, because a segment is damaged: %s",
                    log.name,
                    error,
                )
                # Continue after the records that were already returned.
                following = RecordId.from_parts(span.info.segment_id + 1, 0)
                yield from read_pages(position, min(end, following))
    finally:
        opened.close()


def _segment_id(info: SegmentInfo) -> int:
    return info.segment_id


def _open_segment(log: RemoteLog, info: SegmentInfo, runner: Runner) -> SegmentReader:
    """Returns a reader of the segment. Raises `NotFound` if the segment was removed."""
    source = SegmentBytes(log, info, runner)
    if info.tier == 0 and info.is_sealed and is_interchange(source.window(0, _HEAD_BYTES).buffer):
        return InterchangeSegment(info, source.whole())
    return RuntimeSegment(info, source)


class RemoteRanges:
    """A `RangeSource` that fetches byte ranges of the copy of a segment in one tier."""

    def __init__(self, log: RemoteLog, info: SegmentInfo) -> None:
        self._log = log
        self._info = info
        self.name = info.path
        head = log.segment_bytes(info.segment_id, length=_HEAD_BYTES, tier=info.tier)
        self.head = head.data
        self.size = head.size

    def read_range(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self.head):
            return bytes(self.head[offset : offset + length])
        return bytes(self.read_view(offset, length))

    def read_view(self, offset: int, length: int) -> memoryview:
        """Like `read_range`, but returns the received bytes without copying them."""
        info = self._info
        stored = self._log.segment_bytes(
            info.segment_id, offset=offset, length=length, tier=info.tier
        )
        if len(stored.data) != length:
            raise Corrupt(
                "the segment became shorter while it was being read",
                path=self.name,
                offset=offset,
                expected=f"{length} bytes",
                found=len(stored.data),
            )
        return stored.data

    def close(self) -> None:
        """Does nothing."""


class _PlainBytes:
    """A `ByteSource` that fetches the bytes of an uncompressed segment."""

    def __init__(self, ranges: RemoteRanges, *, is_sealed: bool) -> None:
        self._ranges = ranges
        self.size = ranges.size if is_sealed else _file_bytes(ranges)

    def window(self, start: int, end: int) -> Window:
        head, end = self._ranges.head, min(end, self._ranges.size)
        if end <= len(head) or start >= end:
            return Window(head, 0)
        return Window(self._ranges.read_view(start, end - start), start)

    def close(self) -> None:
        """Does nothing."""


class _PackedBytes:
    """A `ByteSource` that fetches a compressed segment and returns its decompressed bytes."""

    def __init__(self, ranges: RemoteRanges, runner: Runner) -> None:
        self._reader = SeekableReader(ranges, mutex=runner.mutex())
        self.size = self._reader.size

    def window(self, start: int, end: int) -> Window:
        return Window(memoryview(self._reader.read(start, end - start)), start)

    def close(self) -> None:
        self._reader.close()


class SegmentBytes:
    """A `ByteSource` that fetches a segment's bytes. It keeps working when the segment moves to
    another tier."""

    def __init__(self, log: RemoteLog, info: SegmentInfo, runner: Runner) -> None:
        self._log = log
        self._info = info
        self._runner = runner
        self._source = self._find(info)
        self.size = self._source.size

    def window(self, start: int, end: int) -> Window:
        for _ in range(_TRIES):
            try:
                return self._source.window(start, end)
            except NotFound:
                self._source = self._find(self._find_segment())
        raise self._moving()

    def whole(self) -> memoryview:
        """Returns all bytes of the segment."""
        content = bytearray()
        while len(content) < self.size:
            start = len(content)
            buffer, origin = self.window(start, min(start + WHOLE_FETCH_BYTES, self.size))
            content += buffer[start - origin :]
        return memoryview(content).toreadonly()

    def close(self) -> None:
        self._source.close()

    def _find(self, info: SegmentInfo) -> ByteSource:
        for _ in range(_TRIES):
            try:
                ranges = RemoteRanges(self._log, info)
                if info.tier:
                    return _PackedBytes(ranges, self._runner)
                return _PlainBytes(ranges, is_sealed=self._info.is_sealed)
            except NotFound:
                info = self._find_segment()
        raise self._moving()

    def _find_segment(self) -> SegmentInfo:
        """Returns the segment's current description. Raises `NotFound` if it was removed."""
        for info in self._log.segments():
            if info.segment_id == self._info.segment_id:
                return info
        raise NotFound(f"{self._log.name}: segment {self._info.segment_id} was removed")

    def _moving(self) -> Busy:
        return Busy(
            f"{self._log.name}: segment {self._info.segment_id} is moving to another tier; retry"
        )


def _file_bytes(ranges: RemoteRanges) -> int:
    """Returns the size of a segment file that is still being written, including the part that is
    not durable yet: the size in its header, or an estimate if the header cannot be read."""
    if len(ranges.head) >= SEGMENT_HEADER.size:
        header = SEGMENT_HEADER.unpack(ranges.head)
        if header.magic == SEGMENT_MAGIC:
            return max(header.max_size, ranges.size)
    return ranges.size + FOOTER_BYTES
