"""A small file that tells other processes how things stand, overwritten in place.

It is not synced: after a power loss it may say what it said before. So it is advice, and one that
is missing or damaged is none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from lakebed.base.errors import DataError, LakebedError, NotFound, UnknownVersion
from lakebed.base.files.durable import read_file, replace_atomically
from lakebed.base.files.protocol import Disk, File
from lakebed.base.layout import Buffer

_log = logging.getLogger(__name__)
Told = TypeVar("Told")


class Notice:
    """The writer's handle. What is told fits a sector: it is written whole or not at all."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None

    def start(self, data: bytes) -> None:
        """Replace what an earlier writer left, durably; from here on it is overwritten in place."""
        replace_atomically(self._disk, self._path, data)
        self._file = self._disk.open(self._path, writable=True)

    def publish(self, data: bytes) -> None:
        """Tell the other processes. A failure only keeps the news from them."""
        assert self._file is not None
        try:
            self._file.pwrite(0, data)
        except LakebedError as error:
            _log.warning("%s could not be told to other processes: %s", self._path, error)

    def close(self) -> None:
        """Make the last one durable: after a clean end it is exact, also behind a reboot."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                with file:
                    file.sync()
            except LakebedError as error:
                _log.warning("%s may be lost with the power: %s", self._path, error)


def read_notice(
    disk: Disk, path: str, *, size: int, decode: Callable[[Buffer], Told]
) -> Told | None:
    """What it says, or None if it is missing or damaged. One of a newer version is an error."""
    try:
        return decode(read_file(disk, path, size_max=size))
    except NotFound:
        return None
    except UnknownVersion:
        raise
    except DataError as error:
        _log.warning("unreadable, and not used: %s", error)
        return None
