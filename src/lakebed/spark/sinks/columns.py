"""The columns from which the topic sink makes messages: checks their names and types, and finds
their bytes.

    value        binary | string                                 required; null is a tombstone
    key          binary | string                                 null: no key
    partition    tinyint | smallint | int | bigint               null: by key, or see `Spread`
    timestamp    timestamp                                       null: now
    headers      array<struct<name:string,value:binary|string>>  null: no headers

No Python loop runs over the rows: numpy computes positions in Arrow's buffers, and a compiled
kernel encodes the headers. `Spread` is in `encoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import InputError, TooLarge
from lakebed.keratin.headers import HEADERS_COUNT_MAX
from lakebed.kernels import record_batch_sections
from lakebed.kernels.arguments import I32_MAX

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_BYTES = ("binary", "string")
_HEADERS = tuple(f"array<struct<name:string,value:{kind}>>" for kind in _BYTES)
TYPES = {
    "value": _BYTES,
    "key": _BYTES,
    "partition": ("tinyint", "smallint", "int", "bigint"),
    "timestamp": ("timestamp",),
    "headers": _HEADERS,
}

Numbers = npt.NDArray[np.signedinteger | np.unsignedinteger]
_US_PER_MS = 1000


class Slices(NamedTuple):
    """Byte ranges in a buffer, as a column of positions and a column of lengths. A negative
    length means null.
    """

    buffer: memoryview
    positions: Numbers
    lengths: Numbers

    def taken(self, rows: Numbers) -> Slices:
        """Returns the slices of the rows with these indexes."""
        return Slices(self.buffer, self.positions[rows], self.lengths[rows])

    def part(self, start: int, end: int) -> Slices:
        return Slices(self.buffer, self.positions[start:end], self.lengths[start:end])

    @property
    def raw(self) -> tuple[memoryview, memoryview, memoryview]:
        """The slices as arguments for the compiled kernels: buffer, positions and lengths."""
        return self.buffer, self.positions.data, self.lengths.data

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of each slice in bytes; 0 for a null."""
        return np.maximum(self.lengths, 0).astype(np.int64)


def checked_columns(schema: StructType) -> dict[str, int]:
    """Returns the index of each column of a message in the schema, by name.

    Raises `InputError` if a column is unknown, repeated or of a wrong type, or if `value` is
    missing.
    """
    indexes: dict[str, int] = {}
    for index, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in TYPES:
            raise InputError(
                f"lakebed.topic: the column {field.name!r} cannot be written: select only "
                f"{', '.join(TYPES)}"
            )
        if name in indexes:
            raise InputError(f"lakebed.topic: the column {name!r} appears twice")
        kind = field.dataType.simpleString()
        if kind not in TYPES[name]:
            allowed = " or ".join(TYPES[name])
            raise InputError(f"lakebed.topic: the column {name!r} is {kind}: it must be {allowed}")
        indexes[name] = index
    if "value" not in indexes:
        raise InputError("lakebed.topic: the column 'value' is missing")
    return indexes


def columns_of(batches: list[pa.RecordBatch], indexes: Mapping[str, int]) -> dict[str, pa.Array]:
    """Concatenates the batches, and returns their columns by name.

    `indexes` has the index of each column in the batches.
    """
    if len(batches) == 1:
        return {name: batches[0].column(index) for name, index in indexes.items()}
    return {
        name: pa.concat_arrays([batch.column(index) for batch in batches])
        for name, index in indexes.items()
    }


def slices_of(array: pa.Array) -> Slices:
    """Returns where the values of a column of bytes or text are in its buffer.

    Raises `TooLarge` if a value has 2 GiB or more.
    """
    _, offset_buffer, data = array.buffers()
    is_large = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    kind = np.int64 if is_large else np.int32
    if len(array) == 0 or offset_buffer is None:
        return Slices(memoryview(b""), np.zeros(0, np.uint32), np.zeros(0, np.int32))
    offsets = np.frombuffer(offset_buffer, kind)[array.offset : array.offset + len(array) + 1]
    lengths: Numbers = np.diff(offsets)
    if is_large:
        if int(lengths.max()) > I32_MAX:
            raise TooLarge("the size of a value in bytes", size=int(lengths.max()), limit=I32_MAX)
        lengths = lengths.astype(np.int32)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    # Never negative, so the unsigned numbers with the same bits are equal.
    starts = offsets[:-1]
    positions: Numbers = starts.view(np.uint64) if is_large else starts.view(np.uint32)
    return Slices(memoryview(b"" if data is None else data), positions, lengths)


def sections_of(array: pa.Array) -> Slices | None:
    """Encodes the headers of each message in the form that record batches use.

    Returns None if no message has headers. Raises `TooLarge` if a message has too many headers, and
    `InputError` if a header has no name.
    """
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    if not counts.any():
        return None
    if int(counts.max()) > HEADERS_COUNT_MAX:
        raise TooLarge(
            "the number of headers of a message", size=int(counts.max()), limit=HEADERS_COUNT_MAX
        )
    names, values = array.flatten().flatten()
    if names.null_count:
        raise InputError("lakebed.topic: a header has a null name: every header needs a name")
    sections = record_batch_sections(
        counts.astype(np.uint32).data, slices_of(names).raw, slices_of(values).raw
    )
    offsets: Numbers = np.frombuffer(sections.offsets, np.int32)
    positions: Numbers = offsets[:-1].view(np.uint32)
    lengths: Numbers = np.diff(offsets)
    return Slices(memoryview(sections.data), positions, lengths)


def milliseconds_of(array: pa.Array, *, now_ms: int) -> npt.NDArray[np.int64]:
    """Converts a column of timestamps to milliseconds since 1970. A null becomes `now_ms`.

    Raises `InputError` if a timestamp is before 1970.
    """
    micros = array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64())
    stamps = pc.fill_null(micros, now_ms * _US_PER_MS).to_numpy() // _US_PER_MS
    if len(stamps) and int(stamps.min()) < 0:
        raise InputError(
            f"lakebed.topic: a timestamp is before 1970: {int(stamps.min())} ms since 1970"
        )
    return np.ascontiguousarray(stamps, np.int64)
