"""Computes the statistics of a data file for the log: number of rows, and per column minimum,
maximum and nulls.

They are taken from the Parquet footer, without I/O, for the first 32 columns, as is Delta's
default. Readers use them to skip files, so a bound that could be wrong is left out:

- floats have no bounds if there is a NaN, which Spark sorts last and Parquet ignores;
- long strings are cut to a prefix; a maximum that was cut is raised above all strings that start
  with the prefix;
- values within arrays and maps, and binary values, have no bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lakebed.spark.tables.partition_values import moment_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData

COLUMNS_MAX: Final = 32  # the default of Delta's `dataSkippingNumIndexedCols`
STRING_CHARACTERS_MAX: Final = 32

_HIGHEST: Final = "\U0010ffff"
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")

Path = tuple[str, ...]


@dataclass
class _Range:
    """The minimum, maximum and number of nulls of one column over all row groups of a file.

    `is_known` is False if minimum and maximum are unknown. A negative number of nulls means
    unknown.
    """

    nulls: int = 0
    least: Any = None
    greatest: Any = None
    is_known: bool = True

    def take(self, statistics: Any, rows: int) -> None:
        if statistics is None or not statistics.has_null_count:
            self.is_known = False
            self.nulls = -1
            return
        if self.nulls >= 0:
            self.nulls += statistics.null_count
        if not statistics.has_min_max:
            self.is_known = self.is_known and statistics.null_count == rows
            return
        try:
            least, greatest = statistics.min, statistics.max
        except (OverflowError, ValueError):  # a year that Python does not support
            self.is_known = False
            return
        if self.least is None or least < self.least:
            self.least = least
        if self.greatest is None or greatest > self.greatest:
            self.greatest = greatest


def stats_json(metadata: FileMetaData, schema: pa.Schema, *, unbounded: frozenset[Path]) -> str:
    """Returns the statistics of a data file as JSON, in the form of Delta's log.

    `schema` is the schema of the file; `unbounded` lists columns whose bounds would be wrong.
    """
    leaves = list(leaf_paths(schema))
    assert len(leaves) == metadata.num_columns, "the file has the columns of the schema"
    ranges: dict[int, _Range] = {}
    indexes = [index for index, path in enumerate(leaves) if path is not None][:COLUMNS_MAX]
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for index in indexes:
            values = ranges.setdefault(index, _Range())
            values.take(row_group.column(index).statistics, row_group.num_rows)
    document: dict[str, Any] = {
        "numRecords": metadata.num_rows,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }
    for index, values in ranges.items():
        path = leaves[index]
        assert path is not None, "chosen because it has a path"
        if values.nulls >= 0:
            _put(document["nullCount"], path, values.nulls)
        if values.is_known and path not in unbounded:
            _put(document["minValues"], path, _lower(values.least))
            _put(document["maxValues"], path, _upper(values.greatest))
    return _ENCODER.encode(document).decode()


def leaf_paths(schema: pa.Schema) -> Iterator[Path | None]:
    """Yields the path of each column that Parquet stores for the schema, in order.

    Columns within arrays and maps have None instead of a path.
    """
    for field in schema:
        yield from _leaf_paths(field.type, (field.name,))


def _leaf_paths(data_type: pa.DataType, path: Path | None) -> Iterator[Path | None]:
    import pyarrow as pa

    if pa.types.is_struct(data_type):
        for field in data_type:
            yield from _leaf_paths(field.type, None if path is None else (*path, field.name))
    elif pa.types.is_map(data_type):
        yield from _leaf_paths(data_type.key_type, None)
        yield from _leaf_paths(data_type.item_type, None)
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        yield from _leaf_paths(data_type.value_type, None)
    else:
        yield path


def _put(document: dict[str, Any], path: Sequence[str], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        document = document.setdefault(name, {})
    document[path[-1]] = value


def _lower(value: Any) -> Any:
    return value[:STRING_CHARACTERS_MAX] if isinstance(value, str) else _written(value)


def _upper(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= STRING_CHARACTERS_MAX:
        return _written(value)
    if value[STRING_CHARACTERS_MAX] == _HIGHEST:
        return None
    return value[:STRING_CHARACTERS_MAX] + _HIGHEST


def _written(value: Any) -> Any:
    match value:
        case bool() | int() | float() | str() | Decimal():
            return value
        case datetime():
            return moment_text(value)
        case date():
            return value.isoformat()
    return None
