"""A page of records from the wire, as records and as the batches that readers know."""

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
    """A batch for each segment that the page has records of; the mapping says where they begin."""
    ids = [RecordId(one) for one in page.record_ids]
    columns = (page.timestamps, page.ext_ids, page.payloads)
    if any(len(column) != len(ids) for column in columns):
        raise BadAnswer("read_records: the answer's columns have different lengths")
    first = 0
    for segment_id, group in groupby(ids, lambda one: one.segment_index):
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
            ids=_column("Q", [one.segment_offset for one in ids[first:last]]),
        )
        first = last


def _column(code: str, numbers: list[int]) -> Column:
    return memoryview(array(code, numbers)).toreadonly()
