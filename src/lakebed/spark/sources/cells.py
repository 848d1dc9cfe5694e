"""Creates Arrow columns from Python values, for rows that no compiled kernel returns as columns.

Unsigned 64-bit numbers become the signed numbers with the same bits, because Spark has no unsigned
numbers. Text that is not valid Unicode (a lone surrogate, or bytes decoded as surrogates) gets
escapes such as `\\udcff`, because Arrow and Spark only store UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.spark.arrow.columns import TIMESTAMP, timestamps_of_ms

TEXTS = pa.map_(pa.string(), pa.string())


def texts(values: Sequence[str | None]) -> pa.Array:
    """Returns an Arrow column of text. None becomes null."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else _spelled(text) for text in values], pa.string())


def text_maps(values: Sequence[Mapping[str, str] | None]) -> pa.Array:
    """Returns an Arrow column of maps from text to text.

    If two names of a map are equal after escaping, the last one counts.
    """
    pairs = [None if by_name is None else list(by_name.items()) for by_name in values]
    try:
        return pa.array(pairs, TEXTS)
    except UnicodeEncodeError:
        spelled = [
            None if items is None else {_spelled(name): _spelled(text) for name, text in items}
            for items in pairs
        ]
        return pa.array(
            [None if by_name is None else list(by_name.items()) for by_name in spelled], TEXTS
        )


def unsigned(values: Iterable[int]) -> np.ndarray:
    """Returns an array of unsigned 64-bit numbers, for `numbers`, `moments` and `flags`."""
    return np.fromiter(values, np.uint64)


def numbers(values: np.ndarray, is_there: np.ndarray | None = None) -> pa.Array:
    """Converts unsigned 64-bit numbers to an Arrow column of the signed numbers with the same bits.

    It has nulls where `is_there` is False.
    """
    return pa.array(values.view(np.int64), pa.int64(), mask=_hidden(is_there))


def small_numbers(values: Sequence[int | None]) -> pa.Array:
    """Returns an Arrow column of 32-bit integers. None becomes null."""
    return pa.array(values, pa.int32())


def flags(values: np.ndarray, bit: int) -> pa.Array:
    """Returns an Arrow column that states for each number whether it has the bit `bit` (a mask)."""
    return pa.array((values & np.uint64(bit)) != 0, pa.bool_())


def moments(values_ms: np.ndarray, is_there: np.ndarray | None = None) -> pa.Array:
    """Returns an Arrow column of timestamps, from milliseconds since 1970.

    It has nulls where `is_there` is False.
    """
    if is_there is None or not len(values_ms):
        return timestamps_of_ms([values_ms.data]) if len(values_ms) else pa.array([], TIMESTAMP)
    microseconds = timestamps_of_ms([values_ms.data]).view(pa.int64()).to_numpy()
    return pa.array(microseconds, TIMESTAMP, mask=_hidden(is_there))


def batch_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """Returns an Arrow batch with those columns that are in the schema, in the schema's order."""
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _hidden(is_there: np.ndarray | None) -> np.ndarray | None:
    return None if is_there is None else ~is_there


def _spelled(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
