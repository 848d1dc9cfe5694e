"""A small file that publishes state to other processes and is overwritten in place.

It is not synced, so after a power loss it may hold an older state. Readers treat it as a hint; a
missing or damaged notice is no hint.
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
    """The writer's handle. The content fits one sector, so it is written whole or not at all."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None

    def start(self, data: bytes) -> None:
        """Durably replaces the file of an earlier writer. From then on it is overwritten in
        place.
        """
        replace_atomically(self._disk, self._path, data)
        self._file = self._disk.open(self._path, writable=True)

    def publish(self, data: bytes) -> None:
        """Publishes the state. If it fails, other processes keep seeing the previous state."""
        assert self._file is not None
        try:
            self._file.pwrite(0, data)
        except LakebedError as error:
            _log.warning("%s could not be published to other processes: %s", self._path, error)

    def close(self) -> None:
        """Makes the last state durable, so that it is exact after a clean shutdown, even after a
        reboot.
        """
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
    """Returns the published state, or None if it is missing or damaged. A newer version is an
    error.
    """
    try:
        return decode(read_file(disk, path, size_max=size))
    except NotFound:
        return None
    except UnknownVersion:
        raise
    except DataError as error:
        _log.warning("unreadable, and not used: %s", error)
        return None
