"""Converts a page of records, as the HTTP API returns it, to records and batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import accumulate, groupby

from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.api.logs import Records
from lakebed.client.errors import BadAnswer
from lakebed.kernels.results import Column


def records_of(page: Records) -> Iterator[Record]:
    ids = map(RecordId, page.record_ids)
    return map(Record, ids, page.timestamps, page.ext_ids, page.payloads)


def batches_of(page: Records, base_offsets: Mapping[int, int]) -> Iterator[RecordBatch]:
    """Yields the records of a page, in one batch for each segment.

    `base_offsets` maps the id of a segment to its base offset; 0 is used for other segments.
    """
    ids = [RecordId(number) for number in page.record_ids]
    columns = (page.timestamps, page.ext_ids, page.payloads)
    if any(len(column) != len(ids) for column in columns):
        raise BadAnswer("read_records: the columns of the response differ in length")
    first = 0
    for segment_id, group in groupby(ids, lambda record_id: record_id.segment_index):
        last = first + sum(1 for _ in group)
        end = ids[last] if last < len(ids) else RecordId(page.next)
        payloads = page.payloads[first:last]
        lengths = list(map(len, payloads))
        yield RecordBatch(
            segment_id=segment_id,
            base_offset=base_offsets.get(segment_id, 0),
            buffer=memoryview(b"".join(payloads)),
            buffer_offset=0,
            header_bytes=0,
            offsets=_column("Q", [0, *accumulate(lengths[:-1])]),
            lengths=_column("I", lengths),
            timestamps=_column("Q", page.timestamps[first:last]),
            ext_ids=_column("Q", page.ext_ids[first:last]),
            end=end,
            ids=_column("Q", [record_id.segment_offset for record_id in ids[first:last]]),
        )
        first = last


def _column(code: str, numbers: list[int]) -> Column:
    return memoryview(array(code, numbers)).toreadonly()
