"""`current.sealed` and `durable_end`: round trips, and every way of being damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.format import DURABLE_END, SEALED_POINTER, DurableEnd, SealedPointer
from lakebed.aof.pointer import (
    decode_durable_end,
    decode_pointer,
    encode_durable_end,
    encode_pointer,
)
from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.kernels import crc64nvme
from tests.aof.segments import flipped

u64 = st.integers(0, 2**64 - 1)

POINTER = encode_pointer(segment_id=7, durable_bytes=176, coordinator_watermark=77)
END = encode_durable_end(
    boot_id=bytes(range(16)), writer_epoch=3, segment_id=7, offset=176, coordinator_watermark=77
)
Decode = Callable[..., SealedPointer | DurableEnd]
BOTH = pytest.mark.parametrize(
    ("data", "decode"),
    [(POINTER, decode_pointer), (END, decode_durable_end)],
    ids=["current.sealed", "durable_end"],
)


@given(u64, u64, u64)
def test_a_pointer_round_trips(segment_id: int, durable_bytes: int, watermark: int) -> None:
    pointer = decode_pointer(
        encode_pointer(
            segment_id=segment_id, durable_bytes=durable_bytes, coordinator_watermark=watermark
        )
    )
    assert pointer[3:6] == (segment_id, durable_bytes, watermark)


@given(st.binary(min_size=16, max_size=16), u64, u64, u64, u64)
def test_a_durable_end_round_trips(
    boot_id: bytes, writer_epoch: int, segment_id: int, offset: int, watermark: int
) -> None:
    end = decode_durable_end(
        encode_durable_end(
            boot_id=boot_id,
            writer_epoch=writer_epoch,
            segment_id=segment_id,
            offset=offset,
            coordinator_watermark=watermark,
        )
    )
    assert end[3:8] == (boot_id, writer_epoch, segment_id, offset, watermark)


@BOTH
def test_every_truncation_is_torn(data: bytes, decode: Decode) -> None:
    for length in range(len(data)):
        with pytest.raises(Torn):
            decode(data[:length], path="here")


@BOTH
def test_every_flipped_bit_is_corrupt(data: bytes, decode: Decode) -> None:
    """No byte is uncovered, and none makes it look like another version."""
    for offset in range(len(data)):
        for bit in range(8):
            with pytest.raises(Corrupt):
                decode(flipped(data, offset, bit))


@BOTH
def test_a_file_that_was_never_written_is_torn(data: bytes, decode: Decode) -> None:
    with pytest.raises(Torn, match="only zeros"):
        decode(bytes(len(data)))


@BOTH
def test_a_file_that_is_too_long_is_corrupt(data: bytes, decode: Decode) -> None:
    with pytest.raises(Corrupt, match="here: the file is too long, expected"):
        decode(data + b"\0", path="here")


@BOTH
@pytest.mark.parametrize("version", [0, 2, 0xFFFF])
def test_a_sound_file_of_another_version_is_refused(
    data: bytes, decode: Decode, version: int
) -> None:
    if decode is decode_pointer:
        other = SEALED_POINTER.pack(SEALED_POINTER.unpack(data)._replace(version=version))
    else:
        other = DURABLE_END.pack(DURABLE_END.unpack(data)._replace(version=version))
    body = other[:-8]
    with pytest.raises(UnknownVersion, match=f"expected 1, found {version}"):
        decode(body + crc64nvme(body).to_bytes(8, "little"))


@BOTH
def test_a_longer_file_of_a_newer_version_is_refused_as_such(data: bytes, decode: Decode) -> None:
    newer = bytearray(data + bytes(24))
    newer[4] = 9
    with pytest.raises(UnknownVersion):
        decode(newer)


@BOTH
def test_a_view_is_as_good_as_bytes(data: bytes, decode: Decode) -> None:
    assert decode(memoryview(bytearray(data))) == decode(data)
