"""Conditions that a frame is loaded with: how they are written, and which rows pass."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from lakebed.base.errors import BadConfig
from lakebed.spark.conditions import check_columns, conditions_of, kept
from lakebed.spark.options import Options

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("word", pa.string()),
        ("key", pa.binary()),
        ("moment", pa.timestamp("us", "UTC")),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"number": 1, "word": "one", "key": b"a", "moment": datetime(2026, 1, 1, tzinfo=UTC)},
        {"number": 2, "word": "two", "key": None, "moment": datetime(2026, 1, 2, tzinfo=UTC)},
        {"number": None, "word": None, "key": b"b", "moment": None},
    ],
    SCHEMA,
)


def options(**given: object) -> Options:
    known = ("filters", "pushFilters")
    return Options("lakebed.topic", {name: str(text) for name, text in given.items()}, known=known)


def passing(*conditions: Any) -> list[int | None]:
    found = conditions_of(options(filters=json.dumps(conditions)), lambda: SCHEMA)
    return kept(ROWS, found).column("number").to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        (["number", "=", 1], [1]),
        (["number", "!=", 1], [2]),
        (["number", ">=", 1], [1, 2]),
        (["number", "<", 1], []),
        (["number", "in", [2, 3]], [2]),
        (["number", "is null"], [None]),
        (["word", "startswith", "t"], [2]),
        (["word", "IS NOT NULL"], [1, 2]),
        (["key", "=", "b"], [None]),
        (["moment", ">", "2026-01-01T12:00:00Z"], [2]),
    ],
)
def test_a_row_passes_as_in_sql(condition: Any, numbers: list[int | None]) -> None:
    assert passing(condition) == numbers
    assert passing(condition, ["number", "=", 7]) == []


@pytest.mark.parametrize(
    "text",
    ["1", "{}", "[1]", '[["number", "=", null]]', '[["number", "~", 1]]', '[["nope", "=", 1]]',
     '[["number", "=", 1.5]]', '[["number", "=", "x"]]', '[["number", "in", 1]]', '[["number"]]',
     '[["number", "=", 1, 2]]', '[["moment", "=", "soon"]]', "[["],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match=r"lakebed\.topic: the option filters is"):
        conditions_of(options(filters=text), lambda: SCHEMA)


def test_filters_of_queries_are_refused_with_what_to_do_instead() -> None:
    with pytest.raises(BadConfig, match="use the option filters instead"):
        conditions_of(options(pushFilters="true"), lambda: SCHEMA)
    assert conditions_of(options(pushFilters="false"), lambda: SCHEMA) == ()


def test_a_condition_on_a_column_that_is_not_read_is_refused() -> None:
    found = conditions_of(options(filters='[["word", "!=", "x"]]'), lambda: SCHEMA)
    with pytest.raises(
        BadConfig,
        match="a condition on the column 'word', which is not read: add it to the option columns",
    ):
        check_columns("lakebed.topic", found, ["number"])
