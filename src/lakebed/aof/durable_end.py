"""The file that tells readers in other processes how far they may read.

It is overwritten in place after each sync and not synced itself: after a power loss it may say
less than what is durable, never more.
"""

from __future__ import annotations

import logging

from lakebed.aof.format import DURABLE_END, DurableEnd
from lakebed.aof.pointer import decode_durable_end, encode_durable_end
from lakebed.base.errors import DataError, LakebedError, NotFound, UnknownVersion
from lakebed.base.files import Disk, File, read_file, replace_atomically

_log = logging.getLogger(__name__)


def load(disk: Disk, path: str) -> DurableEnd | None:
    """What it says, or None if it is missing or damaged: it is advice."""
    try:
        return decode_durable_end(read_file(disk, path, size_max=DURABLE_END.size))
    except NotFound:
        return None
    except UnknownVersion:
        raise
    except DataError as error:
        _log.warning("the durable end is unreadable and not used: %s", error)
        return None


class DurableEndFile:
    """The writer's handle."""

    def __init__(self, disk: Disk, path: str, *, writer_epoch: int) -> None:
        self._disk = disk
        self._path = path
        self._writer_epoch = writer_epoch
        self._boot_id = disk.boot_id()
        self._file: File | None = None

    def start(self, *, segment_id: int, offset: int, coordinator_watermark: int) -> None:
        """Replace what an earlier writer left, durably; from here on it is overwritten in place."""
        replace_atomically(
            self._disk, self._path, self._encode(segment_id, offset, coordinator_watermark)
        )
        self._file = self._disk.open(self._path, writable=True)

    def publish(self, *, segment_id: int, offset: int, coordinator_watermark: int) -> None:
        """Tell the other processes. A failure only keeps the news from them."""
        assert self._file is not None
        try:
            self._file.pwrite(0, self._encode(segment_id, offset, coordinator_watermark))
        except LakebedError as error:
            _log.warning("the durable end could not be told to other processes: %s", error)

    def close(self) -> None:
        """Make the last one durable: after a clean end it is exact, also behind a reboot."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                with file:
                    file.sync()
            except LakebedError as error:
                _log.warning("the durable end may be lost with the power: %s", error)

    def _encode(self, segment_id: int, offset: int, coordinator_watermark: int) -> bytes:
        return encode_durable_end(
            boot_id=self._boot_id,
            writer_epoch=self._writer_epoch,
            segment_id=segment_id,
            offset=offset,
            coordinator_watermark=coordinator_watermark,
        )
