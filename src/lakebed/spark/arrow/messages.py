"""Converts messages of a topic to Arrow batches, with the columns of the Spark source
`lakebed.topic`.

The rows have the same order as in the batches that the storage engine returned. An Arrow batch has
at most `rows_max` rows, ten thousand by default: longer batches of the engine are cut, and shorter
ones joined. Damage raises the same error as reading the messages does, instead of returning the
Arrow batch that would contain the damaged message. Damage of a message's headers may be noticed
only if its key or headers are selected.
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
    """Yields the messages of a partition as Arrow batches of at most `rows_max` rows.

    Long batches are cut, and short ones are joined. `columns` selects the columns and their order;
    None means all.
    """
    names = FIELDS.checked(columns)
    for group in _groups(batches, rows_max):
        for batch in _within_limits(group, topic, partition, names):
            yield from parts(batch, rows_max)


def record_batch(
    *batches: MessageBatch, topic: str, partition: int, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Returns all messages of these batches as one Arrow batch, with one row per message.

    `columns` selects the columns and their order; None means all. Columns that are not selected are
    not computed. Raises `TooLarge` if a column would have 2 GiB or more.
    """
    names = FIELDS.checked(columns)
    slices = [message_slices_of(batch, names) for batch in batches]
    row_count = sum(map(len, batches))
    arrays: list[pa.Array] = []
    for name in names:
        if name == "topic":
            arrays.append(repeated(topic, pa.string(), row_count))
        elif name == "partition":
            arrays.append(repeated(partition, pa.int32(), row_count))
        else:
            arrays.append(_column(name, batches, slices))
    return pa.RecordBatch.from_arrays(arrays, schema=FIELDS.schema(names))


def _groups(batches: Iterable[MessageBatch], rows_max: int) -> Iterator[list[MessageBatch]]:
    """Groups consecutive batches, so that a group has at most `rows_max` rows and about 4 MiB.

    A batch that exceeds one of these limits forms a group by itself.
    """
    assert rows_max > 0, "rows_max must be positive"
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
    """Returns the approximate size in bytes of the batch's messages after decompression."""
    if isinstance(batch, PlainMessages):
        return batch.run.end - batch.run.start
    assert isinstance(batch, PackedMessages), "unknown kind of batch"
    return len(batch.batch.buffer)


def _within_limits(
    group: Sequence[MessageBatch], topic: str, partition: int, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yields the group as one Arrow batch, or as several if a column would be too large.

    A batch that is too large is halved until its parts fit. Raises `TooLarge` if a single message
    does not fit.
    """
    try:
        yield record_batch(*group, topic=topic, partition=partition, columns=names)
    except TooLarge:
        (batch,) = group  # joined batches are small enough
        if len(batch) == 1:
            raise
        middle = len(batch) // 2
        for part in (batch.part(0, middle), batch.part(middle, len(batch))):
            yield from _within_limits([part], topic, partition, names)


def _column(
    name: str, batches: Sequence[MessageBatch], slices: Sequence[MessageSlices]
) -> pa.Array:
    if name == "offset":
        return joined([integers(batch.offsets, pa.int64()) for batch in batches])
    if name == "timestamp":
        return timestamps_of_ms([batch.timestamps_ms for batch in batches])
    if name == "key":
        return joined([_bytes(of_batch.buffer, of_batch.keys) for of_batch in slices])
    if name == "value":
        return joined([_bytes(of_batch.buffer, of_batch.values) for of_batch in slices])
    if all(of_batch.headers is None for of_batch in slices):
        return _no_headers(sum(map(len, batches)))
    return joined([_headers(*pair) for pair in zip(batches, slices, strict=True)])


def _bytes(buffer: memoryview, slices: Slices | None) -> pa.Array:
    assert slices is not None, "this column was not located"
    return binary(gather(buffer, *slices))


def _no_headers(count: int) -> pa.Array:
    """Returns a headers column of `count` rows, which are all empty lists, not nulls."""
    offsets = integers(np.zeros(count + 1, np.int32).data, pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array([], _HEADER), type=_HEADERS)


def _headers(batch: MessageBatch, slices: MessageSlices) -> pa.Array:
    headers, buffer = slices.headers, slices.buffer
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
        return encoded.cast(pa.string())  # validates the UTF-8 without a copy
    except pa.ArrowInvalid:
        pass
    # Decode as a reader does: raises for plain records, replaces bad bytes in packed batches.
    decoded = [name for message in batch for name, _ in message.headers]
    return pa.array(decoded, pa.string())
