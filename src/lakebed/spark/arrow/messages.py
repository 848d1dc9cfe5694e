"""Messages of a topic as Arrow batches, with the columns that `lakebed.topic` has in Spark.

The rows are those that iterating over the engine's batches gives, in that order; a batch of Arrow
holds some ten thousand, whether they came as one batch or as many. Damage raises what reading the
messages raises, and then nothing of the engine's batch is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from lakebed.base.errors import TooLarge
from lakebed.base.units import MIB
from lakebed.keratin.message_batch import MessageBatch, PackedMessages, PlainMessages
from lakebed.kernels import gather
from lakebed.spark.arrow.columns import (
    ROWS_MAX,
    TIMESTAMP,
    Fields,
    binary,
    integers,
    joined,
    parts,
    repeated,
    timestamps_of_ms,
)
from lakebed.spark.arrow.message_slices import MessageSlices, Slices, message_slices_of

_HEADER = pa.struct({"name": pa.string(), "value": pa.binary()})
_HEADERS = pa.list_(pa.field("element", _HEADER))
_JOINED_BYTES_MAX = 4 * MIB

FIELDS = Fields(
    {
        "topic": ("string", pa.string()),
        "partition": ("int", pa.int32()),
        "offset": ("bigint", pa.int64()),
        "timestamp": ("timestamp", TIMESTAMP),
        "key": ("binary", pa.binary()),
        "value": ("binary", pa.binary()),
        "headers": ("array<struct<name:string,value:binary>>", _HEADERS),
    }
)


def record_batches(
    batches: Iterable[MessageBatch],
    *,
    topic: str,
    partition: int,
    columns: Sequence[str] | None = None,
    rows_max: int = ROWS_MAX,
) -> Iterator[pa.RecordBatch]:
    """All of their messages; long batches are cut, and short ones joined."""
    names = FIELDS.checked(columns)
    for group in _groups(batches, rows_max):
        for found in _within_limits(group, topic, partition, names):
            yield from parts(found, rows_max)


def record_batch(
    *batches: MessageBatch, topic: str, partition: int, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Their messages, one a row; `TooLarge` if a column of them would have 2 GiB or more.

    The columns are those that are asked for, in that order, or all; the others cost nothing.
    """
    names = FIELDS.checked(columns)
    found = [message_slices_of(batch, names) for batch in batches]
    row_count = sum(map(len, batches))
    made: list[pa.Array] = []
    for name in names:
        if name == "topic":
            made.append(repeated(topic, pa.string(), row_count))
        elif name == "partition":
            made.append(repeated(partition, pa.int32(), row_count))
        else:
            made.append(_column(name, batches, found))
    return pa.RecordBatch.from_arrays(made, schema=FIELDS.schema(names))


def _groups(batches: Iterable[MessageBatch], rows_max: int) -> Iterator[list[MessageBatch]]:
    """Short ones together, for as long as they are few rows and few bytes."""
    assert rows_max > 0, "batches without rows"
    group: list[MessageBatch] = []
    row_count = byte_count = 0
    for batch in batches:
        size = _bytes_of(batch)
        is_full = row_count + len(batch) > rows_max or byte_count + size > _JOINED_BYTES_MAX
        if group and is_full:
            yield group
            group, row_count, byte_count = [], 0, 0
        group.append(batch)
        row_count += len(batch)
        byte_count += size
    if group:
        yield group


def _bytes_of(batch: MessageBatch) -> int:
    """About what its rows take."""
    if isinstance(batch, PlainMessages):
        return batch.run.end - batch.run.start
    assert isinstance(batch, PackedMessages), "another kind of batch"
    return len(batch.batch.buffer)


def _within_limits(
    group: Sequence[MessageBatch], topic: str, partition: int, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """One Arrow batch, or two if one column cannot hold all of it, and so on."""
    try:
        yield record_batch(*group, topic=topic, partition=partition, columns=names)
    except TooLarge:
        (batch,) = group  # those that are joined are small
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        for part in (batch.part(0, middle), batch.part(middle, len(batch))):
            yield from _within_limits([part], topic, partition, names)


def _column(
    name: str, batches: Sequence[MessageBatch], places: Sequence[MessageSlices]
) -> pa.Array:
    if name == "offset":
        return joined([integers(batch.offsets, pa.int64()) for batch in batches])
    if name == "timestamp":
        return timestamps_of_ms([batch.timestamps_ms for batch in batches])
    if name == "key":
        return joined([_bytes(one.buffer, one.keys) for one in places])
    if name == "value":
        return joined([_bytes(one.buffer, one.values) for one in places])
    if all(one.headers is None for one in places):
        return _no_headers(sum(map(len, batches)))
    return joined([_headers(*pair) for pair in zip(batches, places, strict=True)])


def _bytes(buffer: memoryview, slices: Slices | None) -> pa.Array:
    assert slices is not None, "a part of the messages that nobody looked for"
    return binary(gather(buffer, *slices))


def _no_headers(count: int) -> pa.Array:
    """Lists that are empty, not null."""
    offsets = integers(np.zeros(count + 1, np.int32).data, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array([], _HEADER), type=_HEADERS)


def _headers(batch: MessageBatch, places: MessageSlices) -> pa.Array:
    headers, buffer = places.headers, places.buffer
    if headers is None:
        return _no_headers(len(batch))
    offsets = np.zeros(len(batch) + 1, np.int32)
    np.cumsum(headers.counts, dtype=np.int32, out=offsets[1:])
    members = [_names(batch, buffer, headers.names), _bytes(buffer, headers.values)]
    pairs = pa.StructArray.from_arrays(members, fields=list(_HEADER))
    return pa.ListArray.from_arrays(integers(offsets.data, pa.int32()), pairs, type=_HEADERS)


def _names(batch: MessageBatch, buffer: memoryview, names: Slices) -> pa.Array:
    encoded = _bytes(buffer, names)
    try:
        return encoded.cast(pa.string())  # looks at the bytes, and takes them as they are
    except pa.ArrowInvalid:
        pass
    # As reading them does: who wrote plain records did it wrong; others get marks in the name.
    found = [name for message in batch for name, _ in message.headers]
    return pa.array(found, pa.string())
