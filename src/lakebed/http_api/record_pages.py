"""A page of a log's durable records: as many as were asked for, and at least one if there is one.

A page ends where the next one begins. Behind the last record of a segment that is the start of the
following one, which is the same place: so a reader who has read a segment does not need it again.
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
_RECORD_BYTES = AOF_RECORD.size  # what a record counts besides its payload


ReadLog = Aof | ReadOnlyLog


class PageRequest(NamedTuple):
    start: RecordId | None
    end: RecordId | None
    max_records: int
    max_bytes: int


class Page(NamedTuple):
    records: Records
    is_at_end: bool  # nothing that was asked for can come any more


def empty_page_at_end(log: ReadLog, asked: PageRequest) -> Page | None:
    """The empty page of whoever has read everything, without a look at the disk."""
    durable_end = log.durable_end()
    if not asked.start or asked.start != durable_end:
        return None
    return _page(_Columns(), asked, position=asked.start, durable_end=durable_end)


def page_forward(log: ReadLog, asked: PageRequest) -> Page:
    durable_end = log.durable_end()
    columns = _Columns()
    position = asked.start or _oldest(log, durable_end)
    with contextlib.closing(_batches(log, asked)) as batches:
        for batch in batches:
            count = columns.count_fitting(batch, asked)
            if count:
                part = batch.part(0, count)
                columns.add(part)
                position = part.end
            if count < len(batch):
                break
    return _page(columns, asked, position=_position_after(log, position), durable_end=durable_end)


def page_backward(log: ReadLog, asked: PageRequest) -> Page:
    durable_end = log.durable_end()
    columns = _Columns()
    position = asked.start or durable_end
    for record in log.read_backward(asked.start):
        size = len(record.payload) + _RECORD_BYTES
        if columns.record_ids and columns.size + size > asked.max_bytes:
            break
        columns.record_ids.append(int(record.record_id))
        columns.timestamps.append(record.timestamp)
        columns.ext_ids.append(record.ext_id)
        columns.payloads.append(record.payload)
        columns.size += size
        position = record.record_id
        if len(columns.record_ids) == asked.max_records:
            break
    return _page(columns, asked, position=position, durable_end=durable_end)


class _Columns:
    def __init__(self) -> None:
        self.record_ids: list[int] = []
        self.timestamps: list[int] = []
        self.ext_ids: list[int] = []
        self.payloads: list[bytes] = []  # or views, which are encoded as well
        self.size = 0

    def count_fitting(self, batch: RecordBatch, asked: PageRequest) -> int:
        """How many of a batch's records still belong on the page; one does on an empty page."""
        ends = list(accumulate(length + _RECORD_BYTES for length in batch.lengths))
        fitting = bisect_right(ends, asked.max_bytes - self.size)
        room = asked.max_records - len(self.record_ids)
        return min(max(fitting, not self.record_ids), room)

    def add(self, batch: RecordBatch) -> None:
        self.record_ids += map(int, batch.record_ids())
        self.timestamps += batch.timestamps
        self.ext_ids += batch.ext_ids
        self.payloads += cast("Iterator[bytes]", batch.payloads())
        self.size += sum(batch.lengths) + _RECORD_BYTES * len(batch)


def _batches(log: ReadLog, asked: PageRequest) -> Generator[RecordBatch, None, None]:
    """A segment in a colder tier is read through the log's own reader, which keeps it open. One
    that is here is opened for the page, and no more of it is scanned than the page may take."""
    if _is_cold(log, asked.start):
        yield from log.read_batches(asked.start, asked.end)
        return
    window_bytes = min(max(asked.max_bytes, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)
    with LogReader(log, handles_max=1, window_bytes=window_bytes) as reader:
        yield from reader.read_batches(asked.start, asked.end)


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
    """The same place; if the segment ends there, said by the following one."""
    segments = log.segments()
    try:
        index = locate(segments, position)
    except NotFound:
        return position
    if index + 1 == len(segments) or segments[index].end != position.segment_offset:
        return position
    return RecordId.from_parts(segments[index + 1].segment_id, RECORDS_START)


def _page(
    columns: _Columns, asked: PageRequest, *, position: RecordId, durable_end: RecordId
) -> Page:
    records = Records(
        record_ids=columns.record_ids,
        timestamps=columns.timestamps,
        ext_ids=columns.ext_ids,
        payloads=columns.payloads,
        next=int(position),
        durable_end=int(durable_end),
    )
    return Page(records, is_at_end=asked.end is not None and position >= asked.end)
