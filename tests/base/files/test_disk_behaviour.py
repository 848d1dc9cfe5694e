"""What every disk does, the real one and the simulated one alike."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lakebed.base.errors import (
    AlreadyExists,
    BadName,
    Closed,
    DiskError,
    InputError,
    LakebedError,
    Locked,
    NotFound,
    WriteFailed,
)
from lakebed.base.files import (
    Disk,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)


def test_bytes_written_are_read_back_anywhere(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        file.pwrite(3, b"hello")
        file.write_and_sync(8, [b" ", bytearray(b"wor"), memoryview(b"ld")])
        assert file.size() == 14
        assert file.pread(0, 100) == b"\0\0\0hello world"
        assert file.pread(5, 3) == b"llo"
        assert file.pread(14, 5) == b""
        assert file.pread(50, 5) == b""


def test_a_file_created_with_a_size_reads_as_zeros(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f", size=5000) as file:
        assert file.size() == 5000
        assert file.pread(0, 6000) == bytes(5000)


def test_a_file_that_does_not_get_its_size_is_not_created(disk: Disk, folder: str) -> None:
    with pytest.raises(WriteFailed, match="truncate"):
        disk.create(f"{folder}/f", size=-1)
    assert disk.names(folder) == []
    with disk.create(f"{folder}/f", size=5) as file:
        with pytest.raises(WriteFailed, match="truncate"):
            file.truncate(-1)
        assert file.size() == 5


def test_zero_filling_overwrites_and_extends(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        file.pwrite(0, b"x" * 10)
        file.zero_fill(4, 10)
        assert file.pread(0, 20) == b"xxxx" + bytes(10)


def test_truncating_cuts_and_lengthens(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        file.pwrite(0, b"0123456789")
        file.truncate(4)
        file.truncate(6)
        file.sync()
        assert file.pread(0, 10) == b"0123\0\0"


def test_creating_what_is_there_is_refused_and_leaves_it(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        file.pwrite(0, b"old")
    with pytest.raises(AlreadyExists, match="already exists"):
        disk.create(f"{folder}/f")
    assert read_file(disk, f"{folder}/f", size_max=10) == b"old"


def test_a_missing_file_is_not_found_by_name(disk: Disk, folder: str) -> None:
    for act in (disk.open, disk.unlink, disk.names, disk.sync_folder, disk.sync_tree):
        with pytest.raises(NotFound, match="nothing"):
            act(f"{folder}/nothing")
    with pytest.raises(NotFound):
        disk.create(f"{folder}/no/folder")
    with pytest.raises(NotFound):
        disk.rename(f"{folder}/nothing", f"{folder}/g")


def test_a_folder_is_not_a_file(disk: Disk, folder: str) -> None:
    for writable in (False, True):
        with pytest.raises(DiskError):
            disk.open(folder, writable=writable)
    with pytest.raises(DiskError):
        disk.unlink(folder)


def test_a_file_opened_for_reading_is_not_written(disk: Disk, folder: str) -> None:
    disk.create(f"{folder}/f").close()
    with disk.open(f"{folder}/f") as file, pytest.raises(WriteFailed):
        file.pwrite(0, b"x")


def test_a_closed_file_is_refused_and_closing_again_is_fine(disk: Disk, folder: str) -> None:
    file = disk.create(f"{folder}/f")
    file.close()
    file.close()
    with pytest.raises(Closed):
        file.pread(0, 1)
    with pytest.raises(Closed):
        file.pwrite(0, b"x")


def test_renaming_replaces_and_names_are_sorted(disk: Disk, folder: str) -> None:
    for name in ("b", "a", "c"):
        with disk.create(f"{folder}/{name}") as file:
            file.pwrite(0, name.encode())
    disk.rename(f"{folder}/c", f"{folder}/a")
    assert disk.names(folder) == ["a", "b"]
    assert read_file(disk, f"{folder}/a", size_max=10) == b"c"
    disk.unlink(f"{folder}/b")
    disk.sync_folder(folder)
    assert disk.names(folder) == ["a"]


def test_a_tree_is_synced_whatever_is_in_it(disk: Disk, folder: str) -> None:
    disk.make_folder(f"{folder}/sub")
    for path in (f"{folder}/f", f"{folder}/sub/g"):
        disk.create(path).close()
    disk.sync_tree(folder)
    assert disk.names(folder) == ["f", "sub"]


def test_an_open_file_outlives_its_name(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        file.pwrite(0, b"still here")
        disk.unlink(f"{folder}/f")
        assert file.pread(0, 20) == b"still here"
    assert not disk.exists(f"{folder}/f")


def test_folders_are_made_with_all_above_them(disk: Disk, folder: str) -> None:
    make_folders(disk, f"{folder}/a/b/c")
    make_folders(disk, f"{folder}/a/b/c")
    assert disk.is_folder(f"{folder}/a/b/c")
    disk.create(f"{folder}/a/file").close()
    with pytest.raises(LakebedError):
        make_folders(disk, f"{folder}/a/file")
    with pytest.raises(LakebedError):
        make_folders(disk, f"{folder}/a/file/below")
    disk.remove_folder(f"{folder}/a/b/c")
    assert disk.names(f"{folder}/a/b") == []
    with pytest.raises(DiskError):
        disk.remove_folder(f"{folder}/a")


def test_a_folder_that_another_makes_meanwhile_is_fine(disk: Disk, folder: str) -> None:
    class Overtaken:
        """The other is a moment faster."""

        def __getattr__(self, name: str) -> Any:
            return getattr(disk, name)

        def make_folder(self, path: str) -> None:
            disk.make_folder(path)
            disk.make_folder(path)

    make_folders(cast("Disk", Overtaken()), f"{folder}/a/b")
    assert disk.is_folder(f"{folder}/a/b")


def test_replacing_creates_then_replaces_and_leaves_nothing_beside(disk: Disk, folder: str) -> None:
    for content in (b"first", b"", b"second" * 1000):
        replace_atomically(disk, f"{folder}/pointer", content)
        assert read_file(disk, f"{folder}/pointer", size_max=10_000) == content
        assert disk.names(folder) == ["pointer"]


def test_leftovers_of_a_crash_are_removed_and_nothing_else(disk: Disk, folder: str) -> None:
    for name in ("pointer", "pointer.77.tmp", "tmp"):
        disk.create(f"{folder}/{name}").close()
    assert remove_temporaries(disk, folder) == ["pointer.77.tmp"]
    assert disk.names(folder) == ["pointer", "tmp"]


def test_a_file_larger_than_expected_is_not_read(disk: Disk, folder: str) -> None:
    disk.create(f"{folder}/f", size=100).close()
    with pytest.raises(LakebedError, match="expected at most 99 bytes, found 100"):
        read_file(disk, f"{folder}/f", size_max=99)


def test_a_lock_is_held_by_one_until_it_is_let_go(disk: Disk, folder: str) -> None:
    lock = disk.lock(f"{folder}/lock")
    with pytest.raises(Locked, match="locked"):
        disk.lock(f"{folder}/lock")
    lock.release()
    lock.release()
    disk.lock(f"{folder}/lock").release()


def test_free_space_is_told(disk: Disk, folder: str) -> None:
    assert disk.free_bytes(folder) > 0


def test_the_boot_id_stays_the_same(disk: Disk) -> None:
    assert len(disk.boot_id()) == 16
    assert disk.boot_id() == disk.boot_id()


def test_ranges_no_file_has_are_refused(disk: Disk, folder: str) -> None:
    with disk.create(f"{folder}/f") as file:
        for offset in (-1, 2**63):
            with pytest.raises(InputError):
                file.pwrite(offset, b"x")
        with pytest.raises(InputError):
            file.zero_fill(0, -1)
        assert file.size() == 0
        with pytest.raises(DiskError) as refused:
            file.pread(-1, 1)
        assert not isinstance(refused.value, WriteFailed)


@pytest.mark.parametrize("name", ["x" * 256, "a\0b"])
def test_names_no_file_can_have_are_refused(disk: Disk, folder: str, name: str) -> None:
    with pytest.raises(BadName):
        disk.create(f"{folder}/{name}")
