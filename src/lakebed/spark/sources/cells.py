"""Columns of Arrow out of Python's values, for rows that no kernel has as columns.

Numbers of 64 bits without a sign become the signed ones of the same bits, for Spark has no others.
Text that is no Unicode text (a lone surrogate, or bytes that a reader carried through as one) has
its odd places written as `\\udcff`: Arrow and Spark hold UTF-8 and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lakebed.spark.arrow.columns import TIMESTAMP, timestamps_of_ms

TEXTS = pa.map_(pa.string(), pa.string())


def texts(values: Sequence[str | None]) -> pa.Array:
    """Nulls stay nulls."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if one is None else _spelled(one) for one in values], pa.string())


def text_maps(values: Sequence[Mapping[str, str] | None]) -> pa.Array:
    """Maps of text to text, in their order; where two names are spelled alike the last counts."""
    pairs = [None if one is None else list(one.items()) for one in values]
    try:
        return pa.array(pairs, TEXTS)
    except UnicodeEncodeError:
        spelled = [
            None if one is None else {_spelled(name): _spelled(text) for name, text in one}
            for one in pairs
        ]
        return pa.array([None if one is None else list(one.items()) for one in spelled], TEXTS)


def unsigned(values: Iterable[int]) -> np.ndarray:
    """Of 64 bits, to be given to `numbers` and `moments`."""
    return np.fromiter(values, np.uint64)


def numbers(found: np.ndarray, is_there: np.ndarray | None = None) -> pa.Array:
    """As signed numbers of the same bits; where nothing is there, null."""
    return pa.array(found.view(np.int64), pa.int64(), mask=_hidden(is_there))


def small_numbers(values: Sequence[int | None]) -> pa.Array:
    """Of 32 bits."""
    return pa.array(values, pa.int32())


def flags(found: np.ndarray, bit: int) -> pa.Array:
    """Whether that bit is set."""
    return pa.array((found & np.uint64(bit)) != 0, pa.bool_())


def moments(found_ms: np.ndarray, is_there: np.ndarray | None = None) -> pa.Array:
    """Milliseconds since 1970."""
    if is_there is None or not len(found_ms):
        return timestamps_of_ms([found_ms.data]) if len(found_ms) else pa.array([], TIMESTAMP)
    found = timestamps_of_ms([found_ms.data]).view(pa.int64()).to_numpy()
    return pa.array(found, TIMESTAMP, mask=_hidden(is_there))


def batch_of(columns: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    """The columns that the schema has, in its order."""
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _hidden(is_there: np.ndarray | None) -> np.ndarray | None:
    return None if is_there is None else ~is_there


def _spelled(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
