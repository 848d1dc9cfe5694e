"""The write loop against a disk made of lists: what it calls, repeats, and gives up on."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from lakebed.base.errors import InputError
from lakebed.base.files.writing import (
    AGAIN_COUNT_MAX,
    GATHER_BYTES,
    WRITE_BYTES_MAX,
    WriteOutcome,
    write_all,
    zero_all,
)


class ListedDisk:
    """Answers calls from a list: a number of bytes, or the errno to raise; then takes all."""

    def __init__(self, answers: Sequence[int] = (), sync_answers: Sequence[int] = ()) -> None:
        self.answers = list(answers)
        self.sync_answers = list(sync_answers)
        self.calls: list[tuple[int, int]] = []
        self.sync_count = 0
        self.data = bytearray()

    def write_once(self, offset: int, view: memoryview) -> int:
        self.calls.append((offset, len(view)))
        answer = self.answers.pop(0) if self.answers else len(view)
        if answer < 0:
            raise OSError(-answer, "from the list")
        taken = min(answer, len(view))
        self.data += view[:taken]
        return taken

    def sync_once(self) -> None:
        self.sync_count += 1
        answer = self.sync_answers.pop(0) if self.sync_answers else 0
        if answer:
            raise OSError(-answer, "from the list")


def run(disk: ListedDisk, chunks: list[bytes]) -> WriteOutcome:
    return write_all(disk.write_once, 100, chunks, sync_once=disk.sync_once)


def test_small_chunks_are_gathered_and_large_ones_are_not_copied() -> None:
    disk = ListedDisk()
    run(disk, [b"a" * 10, b"b" * 20, b"c" * GATHER_BYTES, b"d" * 5, b"e"])
    assert disk.calls == [(100, 30), (130, GATHER_BYTES), (130 + GATHER_BYTES, 6)]
    assert disk.sync_count == 1


def test_no_call_writes_more_than_the_maximum() -> None:
    disk = ListedDisk()
    assert run(disk, [b"x" * (2 * WRITE_BYTES_MAX + 1)]).written == 2 * WRITE_BYTES_MAX + 1
    assert [length for _, length in disk.calls] == [WRITE_BYTES_MAX, WRITE_BYTES_MAX, 1]


def test_a_short_write_goes_on_where_it_stopped() -> None:
    disk = ListedDisk([3, 4])
    assert run(disk, [b"0123456789"]) == (10, 0, 0)
    assert disk.calls == [(100, 10), (103, 7), (107, 3)]
    assert disk.data == b"0123456789"


def test_interrupted_calls_are_repeated() -> None:
    disk = ListedDisk([-errno.EINTR, -errno.EAGAIN, 2, -errno.EINTR], [-errno.EINTR])
    assert run(disk, [b"abc"]) == (3, 0, 0)
    assert disk.data == b"abc"
    assert disk.sync_count == 2


def test_a_disk_that_is_never_ready_does_not_spin_forever() -> None:
    disk = ListedDisk([-errno.EAGAIN] * (AGAIN_COUNT_MAX + 1))
    assert run(disk, [b"abc"]) == (0, errno.EAGAIN, 0)


def test_a_call_that_writes_nothing_is_an_error() -> None:
    disk = ListedDisk([1, 0])
    assert run(disk, [b"abc"]) == (1, errno.EIO, 0)


def test_a_failed_write_is_not_synced() -> None:
    disk = ListedDisk([1, -errno.ENOSPC])
    assert run(disk, [b"abc"]) == (1, errno.ENOSPC, 0)
    assert disk.sync_count == 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EAGAIN])
def test_a_failed_sync_is_never_repeated(code: int) -> None:
    disk = ListedDisk([], [-code])
    assert run(disk, [b"abc"]) == (3, 0, code)
    assert disk.sync_count == 1


def test_nothing_is_synced_without_being_asked() -> None:
    disk = ListedDisk()
    assert write_all(disk.write_once, 0, [b"x"]) == (1, 0, 0)
    assert disk.sync_count == 0


def test_zeros_are_written_in_steps() -> None:
    disk = ListedDisk([5])
    assert zero_all(disk.write_once, 0, WRITE_BYTES_MAX + 2) == (WRITE_BYTES_MAX + 2, 0, 0)
    assert disk.data == bytes(WRITE_BYTES_MAX + 2)
    assert disk.calls == [(0, WRITE_BYTES_MAX), (5, WRITE_BYTES_MAX - 5), (WRITE_BYTES_MAX, 2)]


def test_a_wrong_range_is_refused_before_any_call() -> None:
    disk = ListedDisk()
    with pytest.raises(InputError):
        write_all(disk.write_once, (1 << 63) - 2, [b"abc"])
    with pytest.raises(InputError):
        zero_all(disk.write_once, -1, 5)
    assert disk.calls == []
