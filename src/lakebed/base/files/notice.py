"""A small file that publishes state to other processes and is overwritten in place.

Updates are not synced, so after a power loss the file may have an older state. Readers must treat
the file only as a hint, and must work without it if it is missing or damaged.
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
Published = TypeVar("Published")


class Notice:
    """Writes the file that publishes state to other processes. The contents must fit in one sector
    of the disk, so that a power cut leaves an older or a newer state, not a mix.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None

    def start(self, data: bytes) -> None:
        """Durably replaces the file of an earlier writer, or creates the file. Must be called
        before `publish`, which overwrites the file in place.
        """
        replace_atomically(self._disk, self._path, data)
        self._file = self._disk.open(self._path, writable=True)

    def publish(self, data: bytes) -> None:
        """Publishes the state. A failure is only logged; other processes then see an older
        state.
        """
        assert self._file is not None
        try:
            self._file.pwrite(0, data)
        except LakebedError as error:
            _log.warning("%s could not be updated for other processes: %s", self._path, error)

    def close(self) -> None:
        """Syncs and closes the file, so that it has the last state even after a power loss. A
        failure is only logged. Idempotent.
        """
        if self._file is not None:
            file, self._file = self._file, None
            try:
                with file:
                    file.sync()
            except LakebedError as error:
                _log.warning(
                    "%s was not synced and may be outdated after a power loss: %s",
                    self._path,
                    error,
                )


def read_notice(
    disk: Disk, path: str, *, size: int, decode: Callable[[Buffer], Published]
) -> Published | None:
    """Returns the published state as `decode` returns it, or None if the file is missing, damaged
    or larger than `size`. Raises `UnknownVersion` if a newer program wrote the file.
    """
    try:
        return decode(read_file(disk, path, size_max=size))
    except NotFound:
        return None
    except UnknownVersion:
        raise
    except DataError as error:
        _log.warning("a damaged file is ignored: %s", error)
        return None
