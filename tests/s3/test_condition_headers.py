"""Conditions as headers give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.s3.conditions import (
    COPY_SOURCE,
    delete_condition,
    etag_condition,
    range_applies,
    read_condition,
    write_condition,
)
from lakebed.s3.errors import S3Error
from lakebed.seglake.conditions import NotModified
from lakebed.seglake.errors import PreconditionFailed
from lakebed.seglake.model import Condition
from tests.s3.test_object_headers import info

pytestmark = pytest.mark.thorough

ETAG = "ab" * 16
BEFORE, THEN, AFTER = (f"Tue, 14 Nov 2023 22:13:{second} GMT" for second in (19, 20, 21))


def outcome(headers: dict[str, str], start: str = "") -> int:
    condition = read_condition(
        {f"{start}{name}".lower(): value for name, value in headers.items()}, start
    )
    if condition is None:
        return 200
    try:
        condition.check(etag=ETAG, modified_ms=info().modified_ms)
    except NotModified:
        return 304
    except PreconditionFailed:
        return 412
    return 200


READS = [
    ({}, 200),
    ({"If-Match": f'"{ETAG}"'}, 200),
    ({"If-Match": ETAG}, 200),
    ({"If-Match": "*"}, 200),
    ({"If-Match": f'"x", "{ETAG}"'}, 200),
    ({"If-Match": '"x"'}, 412),
    ({"If-Match": f'W/"{ETAG}"'}, 412),
    ({"If-Match": ""}, 412),
    ({"If-Match": '"*"'}, 412),
    ({"If-Match": '"'}, 412),
    ({"If-None-Match": f'"{ETAG}"'}, 304),
    ({"If-None-Match": f'W/"{ETAG}"'}, 304),
    ({"If-None-Match": f'"x",W/"{ETAG}"'}, 304),
    ({"If-None-Match": ETAG}, 304),
    ({"If-None-Match": "*"}, 304),
    ({"If-None-Match": '"x"'}, 200),
    ({"If-None-Match": ""}, 200),
    ({"If-Modified-Since": BEFORE}, 200),
    ({"If-Modified-Since": THEN}, 304),
    ({"If-Modified-Since": AFTER}, 304),
    ({"If-Modified-Since": "Tuesday, 14-Nov-23 22:13:20 GMT"}, 304),
    ({"If-Modified-Since": "Tue Nov 14 22:13:20 2023"}, 304),
    ({"If-Modified-Since": "not a date"}, 200),
    ({"If-Modified-Since": ""}, 200),
    ({"If-Unmodified-Since": BEFORE}, 412),
    ({"If-Unmodified-Since": THEN}, 200),
    ({"If-Unmodified-Since": AFTER}, 200),
    ({"If-Unmodified-Since": "99 Foo 99999 99:99:99"}, 200),
    # One replaces the other.
    ({"If-Match": f'"{ETAG}"', "If-Unmodified-Since": BEFORE}, 200),
    ({"If-Match": '"x"', "If-Unmodified-Since": AFTER}, 412),
    ({"If-None-Match": '"x"', "If-Modified-Since": AFTER}, 200),
    ({"If-None-Match": f'"{ETAG}"', "If-Modified-Since": BEFORE}, 304),
    # What must hold is looked at first.
    ({"If-Match": '"x"', "If-None-Match": f'"{ETAG}"'}, 412),
    ({"If-Match": f'"{ETAG}"', "If-None-Match": f'"{ETAG}"'}, 304),
]


@pytest.mark.parametrize(("headers", "status"), READS, ids=str)
@pytest.mark.parametrize("start", ["", COPY_SOURCE])
def test_conditions_of_a_read(headers: dict[str, str], status: int, start: str) -> None:
    assert outcome(headers, start) == status


def test_conditions_of_a_copy_s_source_are_not_those_of_its_target() -> None:
    assert read_condition({"x-amz-copy-source-if-match": '"x"'}) is None
    assert read_condition({"if-match": '"x"'}, COPY_SOURCE) is None


@pytest.mark.parametrize(
    ("headers", "condition"),
    [
        ({}, Condition()),
        ({"if-match": f'"{ETAG}"'}, Condition(if_match=ETAG)),
        ({"if-match": ETAG}, Condition(if_match=ETAG)),
        ({"if-match": "*"}, Condition(if_match="*")),
        ({"if-match": f'W/"{ETAG}"'}, Condition(if_match=f'W/"{ETAG}"')),
        ({"if-none-match": "*"}, Condition(if_none_match="*")),
        ({"if-none-match": " * "}, Condition(if_none_match="*")),
        ({"if-match": "*", "if-none-match": "*"}, Condition(if_match="*", if_none_match="*")),
    ],
    ids=str,
)
def test_conditions_of_a_write(headers: dict[str, str], condition: Condition) -> None:
    assert write_condition(headers) == condition


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        (None, Condition()),
        (f'"{ETAG}"', Condition(if_match=ETAG)),
        (f" {ETAG} ", Condition(if_match=ETAG)),
        ("*", Condition(if_match="*")),
        ('"*"', Condition(if_match='"*"')),
        (f'W/"{ETAG}"', Condition(if_match=f'W/"{ETAG}"')),
    ],
)
def test_a_delete_reads_if_match_as_a_write_does(value: str | None, condition: Condition) -> None:
    headers = {} if value is None else {"if-match": value}
    assert write_condition(headers) == delete_condition(headers) == condition
    assert etag_condition(value) == condition


@pytest.mark.parametrize(
    "headers",
    [
        {"if-none-match": f'"{ETAG}"'},
        {"if-none-match": ""},
        {"if-none-match": '"*"'},
        {"if-match": f'"{ETAG}", "x"'},
    ],
    ids=str,
)
def test_conditions_that_a_write_does_not_have_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(S3Error) as refused:
        write_condition(headers)
    assert refused.value.code == "NotImplemented"


@pytest.mark.parametrize(
    ("value", "applies"),
    [
        (f'"{ETAG}"', True),
        ('"x"', False),
        (f'W/"{ETAG}"', False),
        (THEN, True),
        (BEFORE, False),
        (AFTER, False),
        ("*", False),
        ("", False),
    ],
)
def test_a_range_applies_only_to_the_object_that_the_client_knows(
    value: str, *, applies: bool
) -> None:
    assert range_applies({"if-range": value}, info()) is applies
    assert range_applies({}, info()) is True


NAMES = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"]
HOSTILE = st.text(st.characters(max_codepoint=0xFF), max_size=60) | st.from_regex(
    r"[A-Za-z]{0,4},? ?[0-9]{1,5}[ -][A-Za-z]{0,4}[ -][0-9]{0,6} [0-9:]{0,9} ?[+-]?[A-Z0-9]{0,6}"
)


@given(st.dictionaries(st.sampled_from(NAMES), HOSTILE, max_size=5))
def test_hostile_conditions_come_to_an_answer(headers: dict[str, str]) -> None:
    assert outcome(headers) in (200, 304, 412)
    range_applies(headers, info())
