"""Files that do without their descriptors while nobody uses them."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.base.errors import DiskError, NotFound, Poisoned, TooManyFiles
from lakebed.base.files import File, descriptors
from lakebed.base.files.descriptors import DESCRIPTORS
from lakebed.base.files.real import RealDisk, RealFile
from lakebed.kernels.disk import real_disk
from tests.fakes.failing_disk import FailingDisk


@pytest.fixture
def disk() -> RealDisk:
    return real_disk()


@pytest.fixture
def file(disk: RealDisk, tmp_path: Path) -> Iterator[RealFile]:
    with disk.create(tmp_path / "file") as made:
        made.write_and_sync(0, [b"first"])
        yield made


def is_parked(file: File) -> bool:
    """Whether no descriptor of this process is of that file."""
    return file.path not in [_target(name) for name in os.listdir("/proc/self/fd")]


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        return ""


def test_a_parked_file_is_opened_again_by_its_next_use(file: RealFile) -> None:
    assert file.park(is_urgent=True)
    assert is_parked(file)
    file.pwrite(5, b" second")
    assert not is_parked(file)
    assert file.park(is_urgent=True)
    assert file.pread(0, 100) == b"first second"
    assert file.park(is_urgent=True)
    assert file.size() == 12
    assert file.park(is_urgent=True)
    file.close()
    file.close()


def test_what_was_used_of_late_is_parked_only_if_it_must_be(file: RealFile) -> None:
    assert not file.park(is_urgent=False)
    assert file.park(is_urgent=False), "it was not used since it was asked the last time"
    file.size()
    assert not file.park(is_urgent=False)
    assert file.park(is_urgent=True)
    assert not file.park(is_urgent=True), "it is already"


def test_a_descriptor_that_was_given_out_stays(file: RealFile) -> None:
    file.park(is_urgent=True)
    descriptor = file.descriptor()
    assert not file.park(is_urgent=True)
    assert os.pread(descriptor, 5, 0) == b"first"


@pytest.mark.parametrize("change", ["removed", "renamed", "replaced"])
def test_a_file_that_loses_its_name_is_still_the_same(
    file: RealFile, disk: RealDisk, tmp_path: Path, change: str
) -> None:
    file.park(is_urgent=True)
    if change == "removed":
        disk.unlink(file.path)
    elif change == "renamed":
        disk.rename(file.path, tmp_path / "other")
    else:
        disk.create(tmp_path / "other").close()
        disk.rename(tmp_path / "other", file.path)
    assert not file.park(is_urgent=True)
    assert file.pread(0, 5) == b"first"


def test_a_file_that_another_process_removed_or_replaced_is_never_mistaken(
    file: RealFile, disk: RealDisk
) -> None:
    with disk.open(file.path) as reading:
        for one in (file, reading):
            one.park(is_urgent=True)
        os.rename(file.path, f"{file.path}.kept")
        with pytest.raises(NotFound):
            reading.pread(0, 5)
        with pytest.raises(DiskError, match="removed while it was open"):
            file.pwrite(0, b"x")
        Path(file.path).write_bytes(b"other")
        for use in (lambda: reading.pread(0, 5), lambda: file.pwrite(0, b"x")):
            with pytest.raises(DiskError, match="replaced while it was open"):
                use()
        assert Path(file.path).read_bytes() == b"other"


def test_bytes_are_synced_before_the_descriptor_goes_and_a_failure_is_remembered(
    tmp_path: Path,
) -> None:
    disk = FailingDisk()
    with disk.create(tmp_path / "file") as file:
        file.pwrite(0, b"x")
        disk.failing = "file"
        assert file.park(is_urgent=True)
        disk.failing = ""
        for use in (file.sync, lambda: file.pwrite(0, b"y")):
            with pytest.raises(Poisoned, match="an earlier sync failed"):
                use()
        assert file.pread(0, 1) == b"x"


def test_files_beyond_the_share_are_parked_and_all_can_be_used(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = DESCRIPTORS.open_count + 16
    monkeypatch.setattr("lakebed.base.files.descriptors.file_share", lambda: share)
    files = [disk.create(tmp_path / f"{number}") for number in range(100)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.pwrite(turn, b"%d" % (number % 10))
            assert DESCRIPTORS.open_count <= share
    for number, file in enumerate(files):
        assert file.pread(0, 9) == b"%d" % (number % 10) * 3
        file.close()


def test_threads_that_read_meet_no_descriptor_of_another_file(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = DESCRIPTORS.open_count + 4
    monkeypatch.setattr("lakebed.base.files.descriptors.file_share", lambda: share)
    files = [disk.create(tmp_path / f"{number}") for number in range(12)]
    for number, file in enumerate(files):
        file.write_and_sync(0, [b"%d" % number])
    wrong: list[object] = []

    def read(start: int) -> None:
        try:
            for turn in range(600):
                number = (start * 7 + turn) % len(files)
                if files[number].pread(0, 9) != b"%d" % number:
                    wrong.append(number)
        except Exception as error:  # noqa: BLE001 - told by the test
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for file in files:
        file.close()


def test_out_of_descriptors_is_an_error_to_try_again_after_idle_files_were_parked(
    file: RealFile, disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os_open, refusals = os.open, 1

    def refusing(path: str, flags: int, mode: int = 0o777) -> int:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise OSError(errno.EMFILE, "")
        return os_open(path, flags, mode)

    monkeypatch.setattr(os, "open", refusing)
    disk.open(file.path).close()
    assert is_parked(file)
    refusals = 1
    with pytest.raises(TooManyFiles, match="Too many open files"):
        disk.create(tmp_path / "new")
    disk.sync_folder(tmp_path)
    disk.create(tmp_path / "new").close()


@pytest.mark.parametrize("limit", [64, 256, 1024, 65_536, 1 << 30, resource.RLIM_INFINITY])
def test_what_is_shared_out_is_within_the_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    files, connections = descriptors.file_share(), descriptors.connection_share()
    assert min(files, connections) >= 8
    if limit > 128:
        assert files + 2 * connections <= limit
    if limit < 0 or limit > 65_536:
        assert files == descriptors.FILES_MAX
