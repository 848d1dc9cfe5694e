"""Arrow columns out of the kernels' columns; no copy where Arrow takes the bytes as they are.

Spark has no unsigned numbers: what is one here becomes the signed one of the same bits.
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
    """A schema as Arrow and as Spark spell it, all of it or some of its columns."""

    def __init__(self, types: Mapping[str, tuple[str, pa.DataType]]) -> None:
        self._types = types
        self._schemas: dict[tuple[str, ...], pa.Schema] = {}
        self.names = tuple(types)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """Made once for each choice of columns: there are many batches."""
        names = self.checked(columns)
        if names not in self._schemas:
            fields = [pa.field(name, self._types[name][1]) for name in names]
            self._schemas[names] = pa.schema(fields)
        return self._schemas[names]

    def ddl(self, columns: Sequence[str] | None = None) -> str:
        """The same for Spark, which compares the two when the first batch comes."""
        return ", ".join(f"{name} {self._types[name][0]}" for name in self.checked(columns))

    def checked(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """These columns, or all of them; `InputError` for one that is not known or comes twice."""
        names = self.names if columns is None else tuple(columns)
        for name in names:
            if name not in self._types:
                raise InputError(f"there is no column {name!r}; there are {', '.join(self.names)}")
        if not names or len(set(names)) < len(names):
            raise InputError("the columns of a batch must be one or more, and none of them twice")
        return names


def integers(column: Column, kind: pa.DataType) -> pa.Array:
    """Of 64 or 32 bits, as they stand in memory."""
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column)])


def binary(gathered: Gathered) -> pa.Array:
    """The gathered slices; empty ones and nulls are two things."""
    validity = None if gathered.validity is None else pa.py_buffer(gathered.validity)
    buffers = [validity, pa.py_buffer(gathered.offsets), pa.py_buffer(gathered.data)]
    count = len(gathered.offsets) - 1
    return pa.Array.from_buffers(pa.binary(), count, buffers, gathered.null_count)


def joined(arrays: Sequence[pa.Array]) -> pa.Array:
    """One behind the other."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def timestamps_of_ms(columns: Sequence[Column]) -> pa.Array:
    """Milliseconds, signed or not; one too far for microseconds becomes the farthest possible."""
    numbers = np.concatenate([_as_int64(column) for column in columns])
    if numbers.max() > _MS_MAX or numbers.min() < -_MS_MAX:
        numbers = np.clip(numbers, -_MS_MAX, _MS_MAX)
    return integers((numbers * _US_PER_MS).data, TIMESTAMP)


def timestamps_of_ns(column: Column) -> pa.Array:
    """Nanoseconds, unsigned; the microsecond that has begun."""
    return integers((np.asarray(column) // _NS_PER_US).data, TIMESTAMP)


def _as_int64(column: Column) -> np.ndarray:
    numbers = np.asarray(column)
    if numbers.dtype == np.uint64 and numbers.max() > I64_MAX:
        numbers = np.minimum(numbers, np.uint64(I64_MAX))
    return numbers.view(np.int64)


def repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    """One value in every row. Kept for the next batch: a column of strings is slow to make."""
    return _repeated(value, kind, -(-count // _REPEATED_STEP) * _REPEATED_STEP).slice(0, count)


@lru_cache(maxsize=32)
def _repeated(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


def parts(batch: pa.RecordBatch, rows_max: int) -> Iterator[pa.RecordBatch]:
    """The batch, or parts of it of about the same number of rows; no copy."""
    part_count = -(-batch.num_rows // rows_max)
    row_count = -(-batch.num_rows // part_count)
    for first in range(0, batch.num_rows, row_count):
        yield batch if part_count == 1 else batch.slice(first, row_count)
