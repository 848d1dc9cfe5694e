"""Records that are encoded while they are written: the same bytes as encoded before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import InputError
from lakebed.kernels import reference
from tests.kernels.samples import Kernels, aof_calls, keratin_calls, load_compiled, quick

pytestmark = pytest.mark.thorough


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


@quick
@given(aof_calls())
def test_a_batch_is_what_encoding_gives(call: tuple[list[Any], dict[str, Any]]) -> None:
    payloads, named = call
    named = {key: value for key, value in named.items() if key != "crc64"}
    for kernels in (load_compiled(), reference):
        encoded = reference.aof_encode(payloads, **named)
        batch = kernels.aof_batch(payloads, **named)
        assert bytes(memoryview(batch)) == encoded.data
        assert (batch.size, len(batch), batch.crc64) == (
            len(encoded.data),
            len(encoded.data),
            encoded.crc64 if "crc64" not in call[1] else reference.crc64nvme(encoded.data),
        )
        assert list(batch.offsets) == list(encoded.offsets)


@quick
@given(keratin_calls())
def test_a_batch_of_keratin_is_what_encoding_gives(
    call: tuple[list[Any], list[Any] | None, dict[str, Any]],
) -> None:
    payloads, headers, named = call
    encoded = reference.keratin_encode(payloads, headers, **named)
    for kernels in (load_compiled(), reference):
        batch = kernels.keratin_batch(payloads, headers, **named)
        assert bytes(memoryview(batch)) == encoded.data
        assert (batch.size, len(batch)) == (len(encoded.data), len(encoded.data))
        assert list(batch.positions) == list(encoded.positions)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_checksums_of_two_pieces_combine(first: bytes, second: bytes) -> None:
    for kernels in (load_compiled(), reference):
        pieces = kernels.crc64nvme(first), kernels.crc64nvme(second)
        assert kernels.crc64_combine(*pieces, len(second)) == kernels.crc64nvme(first + second)


@pytest.mark.parametrize("seed", range(40))
def test_written_batches_and_bytes_stand_one_behind_the_other(
    kernels: Kernels, fd: int, seed: int
) -> None:
    random = Random(seed)
    chunks: list[Any] = []
    expected = b""
    for _ in range(random.randrange(1, 10)):
        kind = random.choice([some_bytes, some_aof_records, some_keratin_records])
        chunk, data = kind(kernels, random)
        chunks.append(chunk)
        expected += data
    outcome = kernels.write_and_sync(fd, 10, chunks, sync=True)
    assert tuple(outcome) == (len(expected), 0, 0)
    assert os.pread(fd, len(expected) + 1, 10) == expected
    for chunk in chunks:
        if hasattr(chunk, "crc64"):
            assert chunk.crc64 == reference.crc64nvme(memoryview(chunk))


def some_bytes(_: Kernels, random: Random) -> tuple[Any, bytes]:
    data = random.randbytes(random.choice([0, 1, 64, 300_000]))
    return data, data


def some_payloads(random: Random) -> list[bytes]:
    """Small ones alone, or some that are encoded before they are written."""
    largest = random.choice([100, 5_000, 65_536, 200_000])
    sizes = [
        size for size in (1, 7, 100, 5_000, 65_500, 65_536, 65_537, 200_000) if size <= largest
    ]
    count = random.randrange(1, 6_000 if largest == 100 else 30)
    return [random.randbytes(random.choice(sizes)) for _ in range(count)]


def some_aof_records(kernels: Kernels, random: Random) -> tuple[Any, bytes]:
    payloads = some_payloads(random)
    stamps = [random.getrandbits(64) for _ in payloads]
    named: dict[str, Any] = {"timestamps": stamps, "ext_ids": 5, "capacity": 1 << 40}
    return kernels.aof_batch(payloads, **named), reference.aof_encode(payloads, **named).data


def some_keratin_records(kernels: Kernels, random: Random) -> tuple[Any, bytes]:
    payloads = some_payloads(random)
    headers = random.choice([None, [random.randbytes(random.choice([0, 30])) for _ in payloads]])
    each = range(len(payloads))
    named: dict[str, Any] = {
        "offsets": random.choice([77, [3 * index for index in each]]),
        "timestamps_ms": random.choice([5, [1000 + index for index in each]]),
        "flags": random.choice([4, [index % 4 for index in each]]),
        "capacity": 1 << 40,
    }
    encoded = reference.keratin_encode(payloads, headers, **named)
    return kernels.keratin_batch(payloads, headers, **named), encoded.data


def test_a_payload_that_its_owner_changes_later_was_copied(kernels: Kernels, fd: int) -> None:
    payload = bytearray(b"as it was")
    batch = kernels.aof_batch([b"plain", payload], timestamps=1, ext_ids=2, capacity=1000)
    payload[:] = b"changed!!"
    payload += b"and longer"
    kernels.write_and_sync(fd, 0, [batch], sync=False)
    data = os.pread(fd, 1000, 0)
    assert b"as it was" in data
    assert len(reference.aof_scan(data, 0, len(data), count_max=9).offsets) == 2


def test_what_a_batch_of_keratin_is_made_from_may_change_later(kernels: Kernels, fd: int) -> None:
    payload, block = bytearray(b"as it was"), bytearray(b"in front")
    numbers: dict[str, Any] = {"offsets": 1, "timestamps_ms": 2, "flags": 0, "capacity": 1000}
    batch = kernels.keratin_batch([b"plain", payload], [None, block], **numbers)
    payload[:] = b"changed!!"
    block += b"and longer"
    kernels.write_and_sync(fd, 0, [batch], sync=False)
    expected = reference.keratin_encode([b"plain", b"as it was"], [None, b"in front"], **numbers)
    assert os.pread(fd, 1000, 0) == expected.data


def test_a_write_that_fails_leaves_the_batch_to_be_written_again(kernels: Kernels, fd: int) -> None:
    batch = kernels.aof_batch([b"x" * 1000] * 50, timestamps=1, ext_ids=2, capacity=1 << 20)
    full = os.open("/dev/full", os.O_WRONLY)
    assert kernels.write_and_sync(full, 0, [batch], sync=True).write_errno
    os.close(full)
    assert kernels.write_and_sync(fd, 0, [batch], sync=True).written == batch.size
    assert batch.crc64 == reference.crc64nvme(os.pread(fd, batch.size, 0))


def test_bad_payloads_are_refused(kernels: Kernels) -> None:
    for bad in ([b""], ["text"], [None], [b"a", 5], None):
        with pytest.raises(InputError):
            kernels.aof_batch(bad, timestamps=1, ext_ids=2, capacity=1000)
    assert kernels.aof_batch([], timestamps=1, ext_ids=2, capacity=1000).size == 0
    assert kernels.aof_batch([b"x"], timestamps=1, ext_ids=2, capacity=10).size == 0


def test_a_record_as_large_as_fits_a_piece_and_one_that_does_not(kernels: Kernels, fd: int) -> None:
    numbers: dict[str, Any] = {"offsets": 1, "timestamps_ms": 2, "flags": 0, "capacity": 1 << 40}
    for size in (*range(65_536 - 40, 65_536 + 5), 262_144 - 36, 262_144, 1_000_000):
        payloads = [b"a" * 200_000, b"b" * size] if size > 70_000 else [b"b" * size] * 5
        batch = kernels.keratin_batch(payloads, None, **numbers)
        assert kernels.write_and_sync(fd, 0, [batch], sync=False).written == batch.size
        assert os.pread(fd, batch.size, 0) == bytes(memoryview(batch))


def test_a_piece_holds_the_smallest_records_there_are(kernels: Kernels, fd: int) -> None:
    keratin = kernels.keratin_batch(
        [b""] * 20_000, None, offsets=range(20_000), timestamps_ms=2, flags=0, capacity=1 << 40
    )
    aof = kernels.aof_batch([b"a"] * 20_000, timestamps=1, ext_ids=2, capacity=1 << 40)
    outcome = kernels.write_and_sync(fd, 0, [keratin, aof], sync=False)
    assert outcome.written == keratin.size + aof.size
    assert os.pread(fd, outcome.written, 0) == bytes(memoryview(keratin)) + bytes(memoryview(aof))


@pytest.mark.parametrize(
    ("values", "lengths"),
    [
        ([], (0, 0)),
        ([b""], (0, 0)),
        ((b"a", b"ccc", b"bb"), (6, 3)),
        ([b"a", None], None),
        ([b"a", bytearray(b"b")], None),
        (["a"], None),
    ],
)
def test_lengths_are_those_of_bytes_alone(kernels: Kernels, values: Any, lengths: Any) -> None:
    assert kernels.bytes_lengths(values) == lengths


def test_lengths_of_no_sequence_are_refused(kernels: Kernels) -> None:
    with pytest.raises(InputError, match="values must be a sequence"):
        kernels.bytes_lengths(5)
