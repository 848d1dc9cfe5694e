"""Chunked bodies: however they are cut, what comes out is what went in, and not a byte more."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.http.chunks import ChunkedReader
from lakebed.http.limits import Limits
from lakebed.http.request import BadBody

pytestmark = pytest.mark.thorough

LIMITS = Limits()


def read(*parts: bytes) -> tuple[bytes, int, bool]:
    """Content, bytes used, whether it came to its end."""
    reader = ChunkedReader(LIMITS)
    pieces: list[bytes] = []
    used = sum(reader.feed(part, pieces) for part in parts)
    return b"".join(pieces), used, reader.is_complete


def test_content_comes_out_and_the_rest_is_left() -> None:
    data = b"5\r\nhello\r\n1;name=value\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"
    assert read(data + b"GET / HTTP/1.1\r\n") == (b"hello!", len(data), True)


def test_a_body_may_be_empty() -> None:
    assert read(b"0\r\n\r\n") == (b"", 5, True)
    assert read(b"000\r\n\r\n") == (b"", 7, True)


@given(
    contents=st.lists(st.binary(min_size=1, max_size=300), max_size=6),
    extensions=st.lists(st.sampled_from([b"", b";a", b';a="b c"', b";" + b"x" * 100]), min_size=6),
    trailers=st.lists(st.sampled_from([b"A: b", b"X-Y:", b"c:\td"]), max_size=3),
    is_upper=st.booleans(),
    cuts=st.lists(st.integers(0, 2000), max_size=20),
)
def test_any_encoding_cut_anywhere_gives_the_content(
    contents: list[bytes],
    extensions: list[bytes],
    trailers: list[bytes],
    is_upper: bool,
    cuts: list[int],
) -> None:
    form = b"%X" if is_upper else b"%x"
    chunks = [
        form % len(content) + extension + b"\r\n" + content + b"\r\n"
        for content, extension in zip(contents, extensions, strict=False)
    ]
    data = b"".join([*chunks, b"0\r\n", *(line + b"\r\n" for line in trailers), b"\r\n"])
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[start:end] for start, end in pairwise(places)]
    assert read(*parts) == (b"".join(contents), len(data), True)


@pytest.mark.parametrize(
    "data",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5\rhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhello0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5_0\r\nhello\r\n0\r\n\r\n",
        b"\r\nhello\r\n0\r\n\r\n",
        b"g\r\n\r\n",
        b";a\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"10000000000000005\r\nhello",
        b"5;a\0b\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"5;" + b"a" * 2000 + b"\r\n",
        b"5;" + b"a" * 2000,
        b"0\r\nbad trailer\r\n\r\n",
        b"0\r\n : a\r\n\r\n",
        b"0\r\nA: b\n\r\n",
        b"0\r\nA: b\0\r\n\r\n",
        b"0\r\n" + b"A: b\r\n" * 6000 + b"\r\n",
        b"0\r\nA: " + b"b" * 2000,
        (b"1;" + b"a" * 1000 + b"\r\nx\r\n") * 20,
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(BadBody):
        read(data)
    with pytest.raises(BadBody):
        read(*(data[at : at + 1] for at in range(len(data))))


def test_a_line_that_does_not_end_is_not_kept_without_end() -> None:
    reader = ChunkedReader(LIMITS)

    def feed() -> None:
        for _ in range(5000):
            reader.feed(b"0", [])

    with pytest.raises(BadBody):
        feed()
