"""Writing real files: every shape of chunks, and the errors that a disk gives."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.errors import InputError
from lakebed.base.files.writing import GATHER_BYTES, WRITE_BYTES_MAX, WriteOutcome
from tests.kernels.samples import Kernels, run_python

SHAPES = {
    "nothing": [],
    "empty": [0, 0],
    "one": [100],
    "one-large": [3 * WRITE_BYTES_MAX + 5],
    "small": [100] * 3000,
    "past-one-call": [1000] * 1500,
    "mixed": [10, GATHER_BYTES, 0, 20, GATHER_BYTES - 1, 30, 2 * WRITE_BYTES_MAX, 40],
    "fills-exactly": [GATHER_BYTES // 2] * (2 * WRITE_BYTES_MAX // GATHER_BYTES) + [1],
}


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield number
    os.close(number)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sync", [False, True])
def test_chunks_of_every_shape_arrive_in_order(
    kernels: Kernels, fd: int, shape: str, sync: bool
) -> None:
    source = random.Random(shape)
    chunks = [source.randbytes(size) for size in SHAPES[shape]]
    outcome = kernels.write_and_sync(fd, 7, chunks, sync=sync)
    joined = b"".join(chunks)
    assert outcome == WriteOutcome(len(joined), 0, 0)
    assert outcome.ok
    assert os.pread(fd, len(joined) + 100, 7) == joined


def test_chunks_may_be_any_bytes_like_objects(kernels: Kernels, fd: int) -> None:
    chunks: list[Any] = [bytearray(b"a"), memoryview(b"xbx")[1:2], b"c"]
    assert kernels.write_and_sync(fd, 0, iter(chunks), sync=True).ok
    assert os.pread(fd, 10, 0) == b"abc"
    chunks[0].append(0)  # released


def test_many_small_chunks_are_few_calls(compiled: Kernels, fd: int) -> None:
    before = write_call_count()
    compiled.write_and_sync(fd, 0, [b"x" * 100] * 20_000, sync=False)
    if before is None:
        pytest.skip("the kernel does not count calls here")
    assert (write_call_count() or 0) - before < 20


def test_zero_fill_writes_zeros_over_old_bytes(kernels: Kernels, fd: int) -> None:
    os.pwrite(fd, b"\xff" * 100, 0)
    length = 2 * WRITE_BYTES_MAX + 50
    assert kernels.zero_fill(fd, 50, length) == WriteOutcome(length, 0, 0)
    assert os.pread(fd, 4 * WRITE_BYTES_MAX, 0) == b"\xff" * 50 + bytes(length)
    assert kernels.zero_fill(fd, 0, 0) == WriteOutcome(0, 0, 0)


def test_a_full_device_is_told_and_not_synced(kernels: Kernels) -> None:
    number = os.open("/dev/full", os.O_WRONLY)
    try:
        outcome = kernels.write_and_sync(number, 0, [b"x" * 10], sync=True)
        assert outcome == WriteOutcome(0, errno.ENOSPC, 0)
        assert not outcome.ok
        assert kernels.zero_fill(number, 0, 10) == WriteOutcome(0, errno.ENOSPC, 0)
    finally:
        os.close(number)


def test_a_sync_that_cannot_be_done_is_told_apart_from_the_write(kernels: Kernels) -> None:
    number = os.open("/dev/null", os.O_WRONLY)  # takes bytes, but cannot sync them
    try:
        outcome = kernels.write_and_sync(number, 0, [b"x" * 10], sync=True)
        assert outcome == WriteOutcome(10, 0, errno.EINVAL)
    finally:
        os.close(number)


def test_a_closed_and_a_read_only_file_take_nothing(kernels: Kernels, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    number = os.open(tmp_path / "file", os.O_RDONLY)
    assert kernels.write_and_sync(number, 0, [b"x"], sync=True) == (0, errno.EBADF, 0)
    os.close(number)
    assert kernels.write_and_sync(number, 0, [b"x"], sync=True) == (0, errno.EBADF, 0)
    assert kernels.zero_fill(number, 0, 9) == (0, errno.EBADF, 0)


@pytest.mark.parametrize("name", ["compiled", "reference"])
def test_a_short_write_goes_on_and_then_tells_the_error(name: str, tmp_path: Path) -> None:
    module = {"compiled": "lakebed.kernels._compiled", "reference": "lakebed.kernels.reference"}
    script = f"""
import errno, os, resource, signal
import {module[name]} as kernels
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = 1_500_000
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
fd = os.open("file", os.O_RDWR | os.O_CREAT)
outcome = kernels.write_and_sync(fd, 0, [b"a" * 1000] * 2000, sync=True)
assert outcome == (limit, errno.EFBIG, 0), outcome
assert os.fstat(fd).st_size == limit
assert kernels.zero_fill(fd, limit - 10, 20) == (10, errno.EFBIG, 0)
"""
    done = run_python("-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("fd_wrong", "offset", "length"),
    [
        (-1, 0, 1),
        (1 << 40, 0, 1),
        (None, 0, 1),
        (1, -1, 1),
        (1, 1 << 63, 1),
        (1, (1 << 63) - 1, 1),
        (1, None, 1),
        (1, 0, -1),
        (1, 0, 1 << 63),
        (1, 0, None),
    ],
)
def test_a_range_that_no_file_has_is_refused(
    kernels: Kernels, fd_wrong: Any, offset: Any, length: Any
) -> None:
    with pytest.raises(InputError):
        kernels.zero_fill(fd_wrong, offset, length)
    if length == 1:
        with pytest.raises(InputError):
            kernels.write_and_sync(fd_wrong, offset, [b"x"], sync=False)


def write_call_count() -> int | None:
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("syscw")), None)
