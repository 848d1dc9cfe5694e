"""Messages from lines, however the bytes come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.cli.input_lines import BadLine, Read
from lakebed.cli.message_lines import LineFormat, Messages, message_batches

PLAIN = LineFormat(message_bytes_max=100)


def reads(chunks: Iterable[bytes]) -> Read:
    """Gives these, and no byte at the end."""
    left = iter(chunks)
    return lambda _: next(left, b"")


def values(chunks: Iterable[bytes], line_format: LineFormat = PLAIN) -> list[bytes | None]:
    found = message_batches(reads(chunks), line_format)
    return [value for batch in found for value in batch.values]


@given(st.lists(st.binary(min_size=1, max_size=8)))
def test_where_the_reads_end_makes_no_difference(chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert values(chunks) == expected


def test_what_is_there_is_handed_on_before_more_is_read() -> None:
    asked = []

    def read(length: int) -> bytes:
        asked.append(length)
        return b"one\n\ntwo"

    first = next(message_batches(read, PLAIN))
    assert first == Messages(None, [b"one", b""])
    assert len(asked) == 1


def test_a_line_that_never_ends_is_refused_and_not_kept() -> None:
    with pytest.raises(BadLine, match=r"^line 2 is longer than the maximum message"):
        values(iter([b"one\nx", *repeat(b"x" * 60, 3)]))
    endless = message_batches(reads(repeat(b"x" * 60)), PLAIN)
    with pytest.raises(BadLine, match=r"^line 1 "):
        next(endless)


def test_the_first_separator_counts_and_may_be_longer() -> None:
    line_format = LineFormat(message_bytes_max=100, separator=b"::", null_value=b"-")
    [batch] = message_batches(reads([b"a::b::c\n::x\nk::\nk::-\n"]), line_format)
    assert batch == Messages([b"a", b"", b"k", b"k"], [b"b::c", b"x", b"", None])
    with pytest.raises(BadLine, match="line 1 has no key separator"):
        values([b"a:b\n"], line_format)


def test_the_limit_is_of_key_and_value_together() -> None:
    line_format = LineFormat(message_bytes_max=10, separator=b"=")
    assert values([b"kkkkk=vvvvv\n"], line_format) == [b"vvvvv"]
    with pytest.raises(BadLine, match="maximum message of 10 bytes"):
        values([b"kkkkk=vvvvvv\n"], line_format)


def test_the_place_is_told_with_its_source() -> None:
    line_format = LineFormat(message_bytes_max=10, separator=b"=")
    found = message_batches(reads([b"a=1\nb=2\nc\n"]), line_format, source="a file")
    assert next(found).keys == [b"a", b"b"]
    with pytest.raises(BadLine, match="a file: line 3 has no key separator"):
        next(found)
