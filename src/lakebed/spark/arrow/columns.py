"""Converts columns that the compiled kernels return to Arrow columns.

Nothing is copied where Arrow can use the same bytes. Spark has no unsigned numbers, so an unsigned
integer becomes the signed integer with the same bits. Timestamps in milliseconds are converted to
microseconds instead, and clamped to what fits a signed 64-bit number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lakebed.base.errors import InputError
from lakebed.kernels.arguments import I64_MAX
from lakebed.kernels.results import Column, Gathered

ROWS_MAX = 10_000
TIMESTAMP = pa.timestamp("us", tz="UTC")

_US_PER_MS = 1000
_NS_PER_US = 1000
_MS_MAX = I64_MAX // _US_PER_MS
_REPEATED_STEP = 1024


class Fields:
    """The columns of a data source with their Arrow and Spark types.

    In its methods, `columns` selects columns and their order; None means all columns.
    """

    def __init__(self, types: Mapping[str, tuple[str, pa.DataType]]) -> None:
        self._types = types
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}
        self.names = tuple(types)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Returns the Arrow schema of the selected columns.

        The schema is cached, because every batch needs it.
        """
        names = self.checked(columns)
        if names not in self._schemas:
            fields = [pa.field(name, self._types[name][1]) for name in names]
            self._schemas[names] = pa.schema(fields)
        return self._schemas[names]

    def ddl(self, columns: Sequence[str] | None = None) -> str:
        """Returns the selected columns as a schema in Spark's DDL.

        The DDL must match the Arrow schema: Spark compares the two when the first batch arrives.
        """
        return ", ".join(f"{name} {self._types[name][0]}" for name in self.checked(columns))

    def checked(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Returns the names of the selected columns, or of all columns if `columns` is None.

        Raises `InputError` if a name is unknown or repeated, or if there are no names.
        """
        names = self.names if columns is None else tuple(columns)
        for name in names:
            if name not in self._types:
                raise InputError(
                    f"column {name!r} does not exist; the columns are {', '.join(self.names)}"
                )
        if not names or len(set(names)) < len(names):
            raise InputError("select at least one column, and no column twice")
        return names


def integers(column: Column, kind: pa.DataType) -> pa.Array:
    """Converts a column of 64-bit or 32-bit integers to an Arrow array without a copy.

    `kind` is the Arrow type, of the same width.
    """
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def binary(gathered: Gathered) -> pa.Array:
    """Returns the result of the kernel `gather` as an Arrow array of byte strings, without a copy.

    An empty byte string and a null stay different.
    """
    validity = None if gathered.validity is None else pa.py_buffer(gathered.validity)
    buffers = [validity, pa.py_buffer(gathered.offsets), pa.py_buffer(gathered.data)]
    count = len(gathered.offsets) - 1
    return pa.Array.from_buffers(pa.binary(), count, buffers, gathered.null_count)


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """Concatenates the arrays. A single array is returned without a copy."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def timestamps_of_ms(columns: Sequence[Column]) -> pa.Array:
    """Converts columns of milliseconds since 1970 to one Arrow column of timestamps in
    microseconds.

    No column may be empty. The numbers may be signed or unsigned. Values beyond the range of the
    result are clamped to it.
    """
    numbers = np.concatenate([_as_int64(column) for column in columns])
    if numbers.max() > _MS_MAX or numbers.min() < -_MS_MAX:
        numbers = np.clip(numbers, -_MS_MAX, _MS_MAX)
    return integers((numbers * _US_PER_MS).data, TIMESTAMP)


def timestamps_of_ns(column: Column) -> pa.Array:
    """Converts a column of unsigned nanoseconds since 1970 to timestamps, rounding down to
    microseconds.
    """
    return integers((np.asarray(column) // _NS_PER_US).data, TIMESTAMP)


def _as_int64(column: Column) -> np.ndarray:
    numbers = np.asarray(column)
    if numbers.dtype == np.uint64 and numbers.max() > I64_MAX:
        numbers = np.minimum(numbers, np.uint64(I64_MAX))
    return numbers.view(np.int64)


def repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """Returns a column of `count` rows that all have the same value.

    The most recently used columns are cached, because string columns are slow to create.
    """
    return _repeated(value, kind, -(-count // _REPEATED_STEP) * _REPEATED_STEP).slice(0, count)


@lru_cache(maxsize=32)
def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def parts(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Yields slices of the batch of about equal size, with at most `rows_max` rows each.

    Copies nothing. The batch must not be empty.
    """
    part_count = -(-batch.num_rows // rows_max)
    row_count = -(-batch.num_rows // part_count)
    for first in range(0, batch.num_rows, row_count):
        yield batch if part_count == 1 else batch.slice(first, row_count)
