"""Which bytes a `Range` header asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.s3.errors import S3Error
from lakebed.s3.ranges import RANGES_MAX, Sections, Span, copied_range, spans_of
from lakebed.seglake.model import ObjectInfo
from lakebed.seglake.ranges import ByteRange
from tests.s3.test_object_headers import info

pytestmark = pytest.mark.thorough


def sized(size: int) -> ObjectInfo:
    return replace(info(), size=size)


def spans(value: str, size: int = 10) -> list[Span] | None:
    return spans_of({"range": value}, sized(size))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes=0-0", [(0, 1)]),
        ("bytes=2-5", [(2, 6)]),
        ("bytes=0-9", [(0, 10)]),
        ("bytes=5-", [(5, 10)]),
        ("bytes=0-", [(0, 10)]),
        ("bytes=-3", [(7, 10)]),
        ("bytes=-300", [(0, 10)]),
        ("bytes=5-300", [(5, 10)]),
        ("bytes=5-999999999999999999", [(5, 10)]),
        ("bytes=5-9223372036854775806", [(5, 10)]),  # the open range of the SDK for Java
        ("bytes=5-" + "9" * 4000, [(5, 10)]),
        ("Bytes=1-2", [(1, 3)]),
        ("bytes= 1-2 , 4-5", [(1, 3), (4, 6)]),
        ("bytes=4-5,1-2", [(4, 6), (1, 3)]),
        ("bytes=0-1,2-3", [(0, 2), (2, 4)]),
        ("bytes=0-4,3-6", [(0, 7)]),
        ("bytes=8-9,0-4,3-6", [(8, 10), (0, 7)]),
        ("bytes=3-6,8-9,0-4", [(0, 7), (8, 10)]),
        ("bytes=0-9,1-2", [(0, 10)]),
        ("bytes=0-1,90-99", [(0, 2)]),
        ("bytes=90-99,-1", [(9, 10)]),
    ],
)
def test_ranges(value: str, expected: list[tuple[int, int]]) -> None:
    assert spans(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=-0",
        "bytes=10-",
        "bytes=10-11",
        "bytes=5-4",
        "bytes=0-1,5-4",
        "bytes=0-1,",
        "bytes=,0-1",
        "bytes=a-b",
        "bytes=0",
        "bytes=0-1-2",
        "bytes=--1",
        "bytes=+0-1",
        "bytes=0x0-1",
        "bytes=²-3",
        "bytes=" + "9" * 30 + "-",
        "items=0-1",
        "0-1",
        "bytes 0-1",
        "bytes=90-99,80-81",
        "bytes=" + ",".join(["0-1"] * (RANGES_MAX + 1)),
        "bytes=" + " " * 10_000 + "0-1",
    ],
)
def test_ranges_that_are_none_are_refused_with_the_size(value: str) -> None:
    with pytest.raises(S3Error) as refused:
        spans(value)
    assert refused.value.code == "InvalidRange"
    assert refused.value.headers == (("Content-Range", "bytes */10"),)


def test_no_byte_of_an_empty_object_can_be_asked_for() -> None:
    for value in ("bytes=0-", "bytes=0-0", "bytes=-1"):
        with pytest.raises(S3Error):
            spans(value, size=0)


def test_without_a_range_or_of_another_object_all_is_asked_for() -> None:
    assert spans_of({}, sized(10)) is None
    assert spans_of({"range": "bytes=0-1", "if-range": '"other"'}, sized(10)) is None
    same = {"range": "bytes=0-1", "if-range": f'"{info().etag}"'}
    assert spans_of(same, sized(10)) == [(0, 2)]


PLACES = st.integers(0, 30)
SPECS: st.SearchStrategy[tuple[int | None, int | None]] = st.one_of(
    st.tuples(PLACES, st.none()),
    st.tuples(st.none(), PLACES),
    st.tuples(PLACES, PLACES).map(lambda both: (min(both), max(both))),
)


@given(st.lists(SPECS, min_size=1, max_size=RANGES_MAX), st.integers(1, 25))
def test_spans_have_the_bytes_asked_for_once_each(
    specs: list[tuple[int | None, int | None]], size: int
) -> None:
    told = [
        ("" if first is None else str(first)) + "-" + ("" if last is None else str(last))
        for first, last in specs
    ]
    wanted: set[int] = set()
    for first, last in specs:
        if first is None:
            assert last is not None
            wanted |= set(range(max(0, size - last), size))
        else:
            wanted |= set(range(first, size if last is None else min(last + 1, size)))
    try:
        found = spans("bytes=" + ",".join(told), size)
    except S3Error as error:
        assert error.code == "InvalidRange"
        assert not wanted
        return
    assert found is not None
    bytes_found = [byte for span in found for byte in range(span.start, span.end)]
    assert sorted(bytes_found) == sorted(wanted)


@given(st.text(st.characters(max_codepoint=0xFF)) | st.from_regex("bytes=[-0-9, ]*"))
def test_hostile_ranges_are_ranges_or_refused(value: str) -> None:
    try:
        found = spans(value)
    except S3Error as error:
        assert error.code == "InvalidRange"
    else:
        assert found
        assert sum(span.end - span.start for span in found) <= 10


def test_sections_are_as_long_as_they_say() -> None:
    asked = [Span(0, 2), Span(5, 10)]
    sections = Sections(asked, size=10, content_type="text/plain", boundary="B")
    data = b"0123456789"
    body = b"".join(
        head + data[span.start : span.end] for head, span in zip(sections.heads, asked, strict=True)
    )
    body += sections.end
    assert sections.length == len(body)
    assert body == (
        b"\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/10\r\n\r\n01"
        b"\r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 5-9/10\r\n\r\n56789"
        b"\r\n--B--\r\n"
    )


def test_a_copied_range_lies_in_its_source() -> None:
    name = "x-amz-copy-source-range"
    assert copied_range({}, 10) is None
    assert copied_range({name: "bytes=0-9"}, 10) == ByteRange(0, 9)
    assert copied_range({name: "bytes=3-3"}, 10) == ByteRange(3, 3)
    for value in ("bytes=0-10", "bytes=5-4", "bytes=0-", "bytes=-3", "0-3", "bytes=0-1,2-3", ""):
        with pytest.raises(S3Error) as refused:
            copied_range({name: value}, 10)
        assert refused.value.code == "InvalidArgument"
