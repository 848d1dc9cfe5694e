"""The compressions of record batches: round trips, other writers, damage, and bombs."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from contextlib import suppress

import cramjam
import pytest
import pyzstd
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, TooLarge
from lakebed.keratin.compression import (
    SNAPPY_BLOCK_BYTES,
    Compression,
    compress,
    inflate,
)

LIMIT = 1 << 20
COMPRESSED = [one for one in Compression if one is not Compression.NONE]
STREAMS = [Compression.GZIP, Compression.LZ4, Compression.ZSTD]
XERIAL = bytes.fromhex("82534e4150505900 00000001 00000001")


def noise(size: int) -> bytes:
    """Half of it compressible."""
    source = random.Random(size)
    return b"".join(source.randbytes(50) + bytes(50) for _ in range(size // 100 + 1))[:size]


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("size", [0, 1, 100, 32767, 32768, 32769, 65536, 300_000])
def test_what_was_compressed_is_inflated(compression: Compression, size: int) -> None:
    data = noise(size)
    compressed = compress(data, compression)
    assert inflate(compressed, compression, bytes_max=LIMIT) == data
    assert inflate(memoryview(compressed), compression, bytes_max=max(1, size)) == data


@given(st.binary(max_size=300), st.sampled_from(COMPRESSED))
def test_any_bytes_round_trip(data: bytes, compression: Compression) -> None:
    assert inflate(compress(data, compression), compression, bytes_max=LIMIT) == data


def test_what_is_inflated_can_not_be_written_to() -> None:
    for compression in Compression:
        assert inflate(compress(b"abc", compression), compression, bytes_max=9).readonly


def test_gzip_zstd_and_lz4_of_other_writers_are_read() -> None:
    data = noise(100_000)
    linked = cramjam.lz4.Compressor(level=9, content_checksum=True, block_linked=True)
    linked.compress(data)
    for compression, written in (
        (Compression.GZIP, gzip.compress(data)),
        (Compression.GZIP, gzip.compress(data[:500]) + gzip.compress(data[500:])),
        (Compression.ZSTD, pyzstd.compress(data, 19)),
        (Compression.LZ4, bytes(linked.finish())),
    ):
        assert inflate(written, compression, bytes_max=LIMIT) == data


def test_what_is_written_is_read_by_others() -> None:
    data = noise(100_000)
    assert gzip.decompress(compress(data, Compression.GZIP)) == data
    assert pyzstd.decompress(compress(data, Compression.ZSTD)) == data
    assert bytes(cramjam.lz4.decompress(compress(data, Compression.LZ4))) == data


def test_lz4_is_written_in_independent_blocks_of_64_kib() -> None:
    descriptor = compress(noise(200_000), Compression.LZ4)[4:6]
    assert descriptor[0] & 0b1110_0000 == 0b0110_0000  # version 1, blocks are independent
    assert descriptor[1] >> 4 == 4  # 64 KiB


def test_snappy_is_written_in_javas_frames() -> None:
    data = noise(SNAPPY_BLOCK_BYTES + 5)
    written = compress(data, Compression.SNAPPY)
    assert written[:16] == XERIAL
    first = int.from_bytes(written[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(written[20 : 20 + first])) == data[:-5]
    assert bytes(cramjam.snappy.decompress_raw(written[24 + first :])) == data[-5:]


def test_snappy_is_read_raw_and_framed_in_blocks_of_any_size() -> None:
    data = noise(90_000)
    assert (
        inflate(cramjam.snappy.compress_raw(data).read(), Compression.SNAPPY, bytes_max=LIMIT)
        == data
    )
    framed = XERIAL
    for start in range(0, len(data), 70_000):
        block = cramjam.snappy.compress_raw(data[start : start + 70_000]).read()
        framed += len(block).to_bytes(4, "big") + block
    assert inflate(framed, Compression.SNAPPY, bytes_max=LIMIT) == data
    assert len(inflate(XERIAL, Compression.SNAPPY, bytes_max=LIMIT)) == 0


def test_snappy_frames_of_a_newer_version_that_says_it_can_be_read_are_read() -> None:
    framed = bytearray(compress(b"abc", Compression.SNAPPY))
    framed[11] = 2
    assert inflate(framed, Compression.SNAPPY, bytes_max=LIMIT).tobytes() == b"abc"
    framed[15] = 2
    with pytest.raises(Corrupt, match="unsupported version of the snappy framing"):
        inflate(framed, Compression.SNAPPY, bytes_max=LIMIT)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_data_that_ends_too_early_is_corrupt(compression: Compression) -> None:
    whole = compress(noise(40_000), compression)
    blocks_end = {16, 20 + int.from_bytes(whole[16:20], "big")}  # whole frames, but fewer
    for size in [*range(40), *range(len(whole) - 40, len(whole)), len(whole) // 2]:
        if compression is Compression.SNAPPY and size in blocks_end:
            continue
        with pytest.raises(Corrupt, match="data is damaged"):
            inflate(whole[:size], compression, bytes_max=LIMIT)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_bytes_behind_the_data_are_corrupt(compression: Compression) -> None:
    whole = compress(noise(1000), compression)
    for behind in (b"\0", b"x" * 3, b"\xff" * 100):
        with pytest.raises(Corrupt, match="data is damaged"):
            inflate(whole + behind, compression, bytes_max=LIMIT)


@given(st.sampled_from(COMPRESSED), st.binary(max_size=80))
def test_random_bytes_raise_nothing_else(compression: Compression, data: bytes) -> None:
    for given_bytes in (data, compress(b"abc" * 20, compression)[:9] + data, XERIAL + data):
        try:
            found = inflate(given_bytes, compression, bytes_max=LIMIT)
        except (Corrupt, TooLarge):
            continue
        assert len(found) <= LIMIT


@given(st.sampled_from(COMPRESSED), st.data())
def test_a_damaged_byte_raises_nothing_else(compression: Compression, data: st.DataObject) -> None:
    whole = bytearray(compress(noise(3000), compression))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(Corrupt, TooLarge):
        inflate(whole, compression, bytes_max=LIMIT)


@pytest.mark.parametrize("compression", Compression)
def test_the_maximum_is_exact(compression: Compression) -> None:
    data = noise(200_000)
    written = compress(data, compression)
    assert len(inflate(written, compression, bytes_max=200_000)) == 200_000
    with pytest.raises(TooLarge) as caught:
        inflate(written, compression, bytes_max=199_999)
    assert caught.value.limit == 199_999
    is_measured = compression in (Compression.NONE, Compression.SNAPPY)
    assert caught.value.size == (200_000 if is_measured else None)
    excess = "200000, the maximum is" if is_measured else "above the maximum of"
    assert str(caught.value).endswith(f"in bytes, is {excess} 199999")


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_bomb_takes_no_more_memory_than_the_maximum(compression: Compression) -> None:
    bomb = compress(bytes(64 << 20), compression)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            inflate(bomb, compression, bytes_max=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * LIMIT


def test_snappy_that_lies_about_its_size_is_refused_before_any_is_allocated() -> None:
    huge = b"\xff\xff\xff\xff\x0f" + bytes(10)  # says 4 GiB
    for data in (huge, XERIAL + len(huge).to_bytes(4, "big") + huge):
        with pytest.raises(TooLarge):
            inflate(data, Compression.SNAPPY, bytes_max=LIMIT)
    small = cramjam.snappy.compress_raw(b"a" * 100).read()
    assert small[0] == 100
    for size in (99, 101):
        with pytest.raises(Corrupt):
            inflate(bytes([size]) + small[1:], Compression.SNAPPY, bytes_max=LIMIT)


def test_gzip_that_lies_about_its_size_is_corrupt() -> None:
    data = gzip.compress(b"a" * 1000)
    with pytest.raises(Corrupt):
        inflate(data[:-4] + (7).to_bytes(4, "little"), Compression.GZIP, bytes_max=LIMIT)
    with pytest.raises(Corrupt):
        inflate(zlib.compress(b"a" * 1000), Compression.GZIP, bytes_max=LIMIT)


def test_all_numbers_are_those_of_the_attributes() -> None:
    assert [one.name for one in sorted(Compression)] == ["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"]
    assert sorted(Compression) == [0, 1, 2, 3, 4]
