"""No descriptor is left: what could not be opened is tried again, and poisons no log."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

from lakebed.base.errors import RetryError, from_os_error
from lakebed.base.files import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.store.failures import LOG_UPKEEP
from lakebed.store.store import Store


class ExhaustedDisk(RealDisk):
    """While it is `exhausted`, files whose path has that in it cannot be opened or made, and
    folders not be synced."""

    def __init__(self) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self.exhausted = ""
        self.refused = threading.Event()

    def create(self, path: PathLike, *, size: int = 0) -> RealFile:
        self._check(path)
        return super().create(path, size=size)

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        self._check(path)
        return super().open(path, writable=writable)

    def sync_folder(self, folder: PathLike) -> None:
        self._check(f"{os.fspath(folder)}/")
        super().sync_folder(folder)

    def _check(self, path: PathLike) -> None:
        if self.exhausted and self.exhausted in os.fspath(path):
            self.refused.set()
            raise from_os_error(OSError(errno.EMFILE, ""), operation="open", path=path)


@pytest.mark.parametrize("where", ["/orders/manifest/", "/orders/segments/", "/orders/"])
def test_a_log_goes_on_by_itself_once_there_are_descriptors_again(
    tmp_path: Path, where: str
) -> None:
    disk = ExhaustedDisk()
    with Store.open(tmp_path, disk=disk) as store:
        log = store.log("orders")
        log.append_record(b"before")
        log.flush()
        disk.exhausted = where
        log.append_record(b"meanwhile")
        with contextlib.suppress(RetryError):
            log.flush()
            log.seal_current_segment(timeout=0)
        assert disk.refused.wait(60)
        disk.exhausted = ""
        log.append_record(b"after")
        log.flush()
        log.seal_current_segment(timeout=60)
        log.append_record(b"last")
        log.flush()
        # The background work is tried again with growing delays: it may not have been yet.
        assert [one for one in store.failures() if one.kind != LOG_UPKEEP] == []
        expected = [b"before", b"meanwhile", b"after", b"last"]
        assert [bytes(one.payload) for one in log.read()] == expected
    with Store.open(tmp_path) as store:
        assert [bytes(one.payload) for one in store.log("orders").read()] == expected
