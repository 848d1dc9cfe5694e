"""Converts records of an append-only log to Arrow batches, with the columns of the Spark source
`lakebed.aof`.

The rows have the same order as in the batches that the storage engine returned. Spark has no
unsigned numbers: `record_id`, `segment`, `timestamp_ns` and `ext_id` become the signed numbers with
the same bits, so numbers in the upper half of their range become negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakebed.aof.record_batch import RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import TooLarge
from lakebed.kernels import gather
from lakebed.kernels.results import Column
from lakebed.spark.arrow.columns import (
    ROWS_MAX,
    TIMESTAMP,
    Fields,
    binary,
    integers,
    parts,
    repeated,
    timestamps_of_ns,
)

FIELDS = Fields(
    {
        "log": ("string", pa.string()),
        "record_id": ("bigint", pa.int64()),
        "segment": ("int", pa.int32()),
        "timestamp": ("timestamp", TIMESTAMP),
        "timestamp_ns": ("bigint", pa.int64()),
        "ext_id": ("bigint", pa.int64()),
        "payload": ("binary", pa.binary()),
    }
)


def record_batches(
    batches: Iterable[RecordBatch],
    *,
    log: str,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """Yields the records as Arrow batches of at most `rows_max` rows.

    Longer batches are cut. `columns` selects the columns and their order; None means all.
    """
    assert rows_max > 0, "rows_max must be positive"
    for batch in batches:
        for rows in _within_limits(batch, log=log, columns=columns):
            yield from parts(rows, rows_max)


def record_batch(
    batch: RecordBatch, *, log: str, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Returns the records of the batch as an Arrow batch, with one row per record.

    `columns` selects the columns and their order; None means all. Columns that are not selected are
    not computed. Raises `TooLarge` if a column would have 2 GiB or more.
    """
    names = FIELDS.checked(columns)
    arrays = [_column(name, batch, log) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=FIELDS.schema(names))


def _within_limits(
    batch: RecordBatch, *, log: str, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yields the records as one Arrow batch, or as several if a column would be too large.

    A batch that is too large is halved until its parts fit. Raises `TooLarge` if a single record
    does not fit.
    """
    try:
        yield record_batch(batch, log=log, columns=columns)
    except TooLarge:
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        for part in (batch.part(0, middle), batch.part(middle, len(batch))):
            yield from _within_limits(part, log=log, columns=columns)


def _column(name: str, batch: RecordBatch, log: str) -> pa.Array:
    if name == "log":
        return repeated(log, pa.string(), len(batch))
    if name == "record_id":
        return integers(_record_ids(batch), pa.int64())
    if name == "segment":
        segments = np.full(len(batch), batch.segment_id, np.uint32)
        return integers(segments.data, pa.int32())
    if name == "timestamp":
        return timestamps_of_ns(batch.timestamps)
    if name == "timestamp_ns":
        return integers(batch.timestamps, pa.int64())
    if name == "ext_id":
        return integers(batch.ext_ids, pa.int64())
    positions = np.asarray(batch.offsets) + batch.header_bytes
    return binary(gather(batch.buffer, positions.data, batch.lengths))


def _record_ids(batch: RecordBatch) -> Column:
    first = int(RecordId.from_parts(batch.segment_id, 0))
    if batch.ids is not None:
        return (np.asarray(batch.ids) + np.uint64(first)).data
    return (np.asarray(batch.offsets) + np.uint64(first + batch.buffer_offset)).data
