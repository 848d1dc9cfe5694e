"""The headers block: key, producer and headers in any combination, and what is no block."""

from __future__ import annotations

from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, InputError, TooLarge, UnknownVersion
from lakebed.keratin.headers import (
    HEADERS_COUNT_MAX,
    SEQUENCE_COUNT,
    Header,
    Producer,
    decode_headers,
    encode_headers,
    encode_plain_blocks,
)
from lakebed.keratin.message import Message
from tests.keratin.partitions import flipped
from tests.keratin.test_golden import golden

PRODUCERS = st.builds(
    Producer,
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 15) - 1),
    st.integers(0, (1 << 31) - 1),
)
HEADERS = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=4)


@given(st.none() | st.binary(max_size=20), st.none() | PRODUCERS, HEADERS)
def test_a_block_round_trips(
    key: bytes | None, producer: Producer | None, headers: list[Header]
) -> None:
    block = encode_headers(key, producer, headers)
    assert decode_headers(block) == (key, producer, tuple(headers))
    assert bool(block) == (key is not None or producer is not None or bool(headers))


@given(st.lists(st.none() | st.binary(max_size=20), max_size=5), st.none() | PRODUCERS)
def test_blocks_without_headers_are_the_same_however_they_are_encoded(
    keys: list[bytes | None], producer: Producer | None
) -> None:
    producers = [
        producer and producer._replace(sequence=(producer.sequence + index) % SEQUENCE_COUNT)
        for index in range(len(keys))
    ]
    expected = [encode_headers(*pair) for pair in zip(keys, producers, strict=True)]
    assert encode_plain_blocks(keys, producer, count=len(keys)) == expected
    keyless = [encode_headers(None, one) for one in producers]
    assert encode_plain_blocks(repeat(None), producer, count=len(keys)) == keyless


def test_a_truncated_block_is_corrupt_wherever_it_ends() -> None:
    block = golden("headers.bin")
    for length in range(1, len(block)):
        with pytest.raises(Corrupt):
            decode_headers(block[:length])
    with pytest.raises(Corrupt):
        decode_headers(block + b"\0")


def test_a_flipped_bit_gives_another_block_or_an_error_and_nothing_else() -> None:
    block = golden("headers.bin")
    for position in range(len(block)):
        for bit in range(8):
            damaged = flipped(block, position, bit)
            try:
                found = decode_headers(damaged)
            except DataError:
                continue
            assert len(found) == 3


def test_a_newer_block_is_refused() -> None:
    with pytest.raises(UnknownVersion):
        decode_headers(b"\2" + golden("headers.bin")[1:])


def test_headers_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(TooLarge):
        encode_headers(None, None, [("name", b"")] * (HEADERS_COUNT_MAX + 1))
    with pytest.raises(TooLarge):
        encode_headers(None, None, [("é" * 32_768, b"")])
    with pytest.raises(InputError, match="cannot be encoded as UTF-8"):
        encode_headers(None, None, [("\ud800", b"")])
    longest = [("é" * 32_767, b"")]
    assert decode_headers(encode_headers(None, None, longest)).headers == tuple(longest)


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        ((), 0),
        ((("lakebed-not-before-ms", b"1800000000000"),), 1_800_000_000_000),
        ((("lakebed-not-before-ms", None), ("lakebed-not-before-ms", b"7")), 7),
        ((("lakebed-not-before-ms", b"soon"),), 0),
        ((("Lakebed-Not-Before-Ms", b"7"),), 0),
    ],
)
def test_a_message_tells_when_it_may_be_delivered(headers: tuple[Header, ...], moment: int) -> None:
    assert Message(0, 0, None, b"", headers).not_before_ms == moment
