"""Pages of a log's durable records. A page has at least one record, if there is one.

A page reports the position where the next page begins. If the page ends with the last record of a
sealed segment, that is the start of the next segment, so that a reader does not need a segment
again after it has read all of it.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Generator, Iterator
from itertools import accumulate
from typing import NamedTuple, cast

from lakebed.aof.format import AOF_RECORD, RECORDS_START
from lakebed.aof.log import Aof
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.span import locate, oldest
from lakebed.api.logs import Records
from lakebed.base.errors import NotFound
from lakebed.base.units import KIB, MIB

_WINDOW_BYTES_MIN = 64 * KIB
_WINDOW_BYTES_MAX = 2 * MIB
_RECORD_BYTES = AOF_RECORD.size  # counted per record in addition to its payload


ReadLog = Aof | ReadOnlyLog


class PageRequest(NamedTuple):
    start: RecordId | None
    end: RecordId | None
    max_records: int
    max_bytes: int


class Page(NamedTuple):
    records: Records
    is_at_end: bool  # no further record can be in the requested range


def empty_page_at_end(log: ReadLog, page_request: PageRequest) -> Page | None:
    """Returns an empty page if the requested page begins at the log's end; else None.

    If the log is open for writing, this does not access the disk.
    """
    durable_end = log.durable_end()
    if not page_request.start or page_request.start != durable_end:
        return None
    return _page(_Columns(), page_request, position=page_request.start, durable_end=durable_end)


def page_forward(log: ReadLog, page_request: PageRequest) -> Page:
    durable_end = log.durable_end()
    columns = _Columns()
    position = page_request.start or _oldest(log, durable_end)
    with contextlib.closing(_batches(log, page_request)) as batches:
        for batch in batches:
            count = columns.count_fitting(batch, page_request)
            if count:
                part = batch.part(0, count)
                columns.add(part)
                position = part.end
            if count < len(batch):
                break
    return _page(
        columns, page_request, position=_position_after(log, position), durable_end=durable_end
    )


def page_backward(log: ReadLog, page_request: PageRequest) -> Page:
    durable_end = log.durable_end()
    columns = _Columns()
    position = page_request.start or durable_end
    for record in log.read_backward(page_request.start):
        size = len(record.payload) + _RECORD_BYTES
        if columns.record_ids and columns.size + size > page_request.max_bytes:
            break
        columns.record_ids.append(int(record.record_id))
        columns.timestamps.append(record.timestamp)
        columns.ext_ids.append(record.ext_id)
        columns.payloads.append(record.payload)
        columns.size += size
        position = record.record_id
        if len(columns.record_ids) == page_request.max_records:
            break
    return _page(columns, page_request, position=position, durable_end=durable_end)


class _Columns:
    def __init__(self) -> None:
        self.record_ids: list[int] = []
        self.timestamps: list[int] = []
        self.ext_ids: list[int] = []
        self.payloads: list[bytes] = []  # or memoryviews, which encode the same
        self.size = 0

    def count_fitting(self, batch: RecordBatch, page_request: PageRequest) -> int:
        """Returns how many records of a batch still fit on the page; at least one if the page is
        empty."""
        ends = list(accumulate(length + _RECORD_BYTES for length in batch.lengths))
        fitting = bisect_right(ends, page_request.max_bytes - self.size)
        room = page_request.max_records - len(self.record_ids)
        return min(max(fitting, not self.record_ids), room)

    def add(self, batch: RecordBatch) -> None:
        self.record_ids += map(int, batch.record_ids())
        self.timestamps += batch.timestamps
        self.ext_ids += batch.ext_ids
        self.payloads += cast("Iterator[bytes]", batch.payloads())
        self.size += sum(batch.lengths) + _RECORD_BYTES * len(batch)


def _batches(log: ReadLog, page_request: PageRequest) -> Generator[RecordBatch, None, None]:
    """Reads the batches of one page.

    A page that begins in a segment of Tier 1 or 2 is read through the log's own reader, which keeps
    the segment open. For other pages, segments are opened for this page alone, and little more than
    what fits on the page is scanned.
    """
    if _is_cold(log, page_request.start):
        yield from log.read_batches(page_request.start, page_request.end)
        return
    window_bytes = min(max(page_request.max_bytes, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)
    with LogReader(log, handles_max=1, window_bytes=window_bytes) as reader:
        yield from reader.read_batches(page_request.start, page_request.end)


def _is_cold(log: ReadLog, start: RecordId | None) -> bool:
    segments = log.segments()
    try:
        return bool(segments[locate(segments, start) if start else 0].tier)
    except (NotFound, IndexError):
        return False


def _oldest(log: ReadLog, durable_end: RecordId) -> RecordId:
    segments = log.segments()
    return oldest(segments) if segments else durable_end


def _position_after(log: ReadLog, position: RecordId) -> RecordId:
    """Returns the start of the next segment if `position` is the end of a sealed segment, else
    `position`."""
    segments = log.segments()
    try:
        index = locate(segments, position)
    except NotFound:
        return position
    if index + 1 == len(segments) or segments[index].end != position.segment_offset:
        return position
    return RecordId.from_parts(segments[index + 1].segment_id, RECORDS_START)


def _page(
    columns: _Columns, page_request: PageRequest, *, position: RecordId, durable_end: RecordId
) -> Page:
    records = Records(
        record_ids=columns.record_ids,
        timestamps=columns.timestamps,
        ext_ids=columns.ext_ids,
        payloads=columns.payloads,
        next=int(position),
        durable_end=int(durable_end),
    )
    return Page(records, is_at_end=page_request.end is not None and position >= page_request.end)
