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
from tests.kernels.samples import Kernels, aof_calls, load_compiled, quick


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
        if random.random() < 0.3:
            data = random.randbytes(random.choice([0, 1, 64, 300_000]))
            chunks.append(data)
            expected += data
            continue
        sizes = [1, 7, 100, 5_000, 65_536, 65_537, 200_000]
        count = random.randrange(1, 30)
        payloads = [random.randbytes(random.choice(sizes)) for _ in range(count)]
        named: dict[str, Any] = {
            "timestamps": [random.getrandbits(64) for _ in payloads],
            "ext_ids": 5,
        }
        chunks.append(kernels.aof_batch(payloads, **named, capacity=1 << 40))
        expected += reference.aof_encode(payloads, **named, capacity=1 << 40).data
    outcome = kernels.write_and_sync(fd, 10, chunks, sync=True)
    assert tuple(outcome) == (len(expected), 0, 0)
    assert os.pread(fd, len(expected) + 1, 10) == expected
    for chunk in chunks:
        if type(chunk) is not bytes:
            assert chunk.crc64 == reference.crc64nvme(memoryview(chunk))


def test_a_payload_that_its_owner_changes_later_was_copied(kernels: Kernels, fd: int) -> None:
    payload = bytearray(b"as it was")
    batch = kernels.aof_batch([b"plain", payload], timestamps=1, ext_ids=2, capacity=1000)
    payload[:] = b"changed!!"
    payload += b"and longer"
    kernels.write_and_sync(fd, 0, [batch], sync=False)
    data = os.pread(fd, 1000, 0)
    assert b"as it was" in data
    assert len(reference.aof_scan(data, 0, len(data), count_max=9).offsets) == 2


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
