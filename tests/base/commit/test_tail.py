"""The end of a file: written, synced, and wiped clean where the disk was full."""

from __future__ import annotations

import errno
from random import Random

import pytest

from lakebed.base.commit import FileTail
from lakebed.base.errors import NoSpace, Poisoned, SyncFailed, WriteFailed
from lakebed.base.simulation.disk import Crash, SimulatedDisk
from lakebed.base.simulation.open_file import SimulatedFile


def new_file(seed: int = 0, *, content: bytes = b"") -> tuple[SimulatedDisk, SimulatedFile]:
    disk = SimulatedDisk(Random(seed))
    file = disk.create("/log")
    file.write_and_sync(0, [content])
    disk.sync_folder("/")
    return disk, file


def bytes_of(disk: SimulatedDisk) -> bytes:
    with disk.open("/log") as file:
        return file.pread(0, file.size())


def test_a_commit_is_durable_and_a_write_is_not() -> None:
    disk, file = new_file()
    tail = FileTail(file, end=0)
    assert tail.commit([b"ab", b"", b"cd"]) == [0, 2, 2]
    assert (tail.end, tail.durable_end) == (4, 4)
    assert tail.write([b"ef", b"gh"]) == [4, 6]
    assert (tail.end, tail.durable_end) == (8, 4)
    disk.restart(Crash.POWER)
    assert bytes_of(disk) == b"abcd"


def test_a_sync_makes_what_was_written_durable_and_is_done_only_if_need_be() -> None:
    disk, file = new_file()
    tail = FileTail(file, end=0)
    tail.write([b"ab"])
    tail.write([b"cd"])
    tail.sync()
    assert tail.durable_end == 4
    steps = disk.steps
    tail.sync()
    assert disk.steps == steps
    disk.restart(Crash.POWER)
    assert bytes_of(disk) == b"abcd"


def test_a_commit_makes_durable_what_was_written_before_it() -> None:
    disk, file = new_file()
    tail = FileTail(file, end=0)
    tail.write([b"ab"])
    tail.commit([b"cd"])
    assert tail.durable_end == 4
    disk.restart(Crash.POWER)
    assert bytes_of(disk) == b"abcd"


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_failed_sync_moves_nothing_and_is_not_repeated(is_synced: bool) -> None:
    disk, file = new_file()
    tail = FileTail(file, end=0)
    tail.write([b"ab"])
    disk.faults.fail("fdatasync")
    with pytest.raises(SyncFailed):
        tail.commit([b"cd"]) if is_synced else tail.sync()
    assert tail.durable_end == 0
    for again in (tail.sync, lambda: tail.commit([b"ef"]), lambda: tail.write([b"ef"])):
        with pytest.raises(Poisoned):
            again()
    assert tail.durable_end == 0


@pytest.mark.parametrize("room", [0, 3, 100])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_synced", [True, False])
def test_what_a_full_disk_refused_is_wiped_durably(seed: int, is_synced: bool, room: int) -> None:
    """Whether the file grows, or has zeros for some of it or all of it."""
    before = b"good" + bytes(room)
    disk, file = new_file(seed, content=before)
    tail = FileTail(file, end=4)
    disk.faults.fail("pwrite", code=errno.ENOSPC)
    with pytest.raises(NoSpace):
        (tail.commit if is_synced else tail.write)([b"refused" * 3])
    assert bytes_of(disk) == before
    assert tail.end == tail.durable_end == 4
    assert tail.commit([b"next"]) == [4]
    disk.restart(Crash.POWER, survivors=seed)
    assert bytes_of(disk) == b"goodnext" + bytes(max(0, room - 4))


@pytest.mark.parametrize("seed", range(8))
def test_a_refused_write_leaves_what_was_written_before_it_and_makes_it_durable(seed: int) -> None:
    disk, file = new_file(seed)
    tail = FileTail(file, end=0)
    tail.write([b"before"])
    disk.faults.fail("pwrite", nth=2, code=errno.ENOSPC)
    with pytest.raises(NoSpace):
        tail.write([b"first of two", b"second of two"])
    assert tail.end == 6
    disk.restart(Crash.POWER)
    assert bytes_of(disk) == b"before"


def test_what_cannot_be_wiped_ends_the_file() -> None:
    disk, file = new_file(seed=3, content=b"good" + bytes(100))
    tail = FileTail(file, end=4)
    disk.faults.fail("pwrite", nth=1, code=errno.ENOSPC)
    disk.faults.fail("pwrite", nth=2, code=errno.ENOSPC)
    with pytest.raises((NoSpace, WriteFailed)) as raised:
        tail.commit([b"refused" * 3])
    left = bytes_of(disk)[4:]
    assert any(left) == isinstance(raised.value, WriteFailed)
