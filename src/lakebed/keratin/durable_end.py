"""The file that tells readers in other processes how far they may read.

It is overwritten in place after each sync and not synced itself: after a power loss it may say
less than what is durable, never more.
"""

from __future__ import annotations

import logging

from lakebed.base.errors import Corrupt, DataError, LakebedError, NotFound, Torn, UnknownVersion
from lakebed.base.files import Disk, File, PathLike, read_file, replace_atomically
from lakebed.base.layout import Buffer
from lakebed.keratin.format import DURABLE_END, DURABLE_END_MAGIC, VERSION, DurableEnd
from lakebed.kernels import crc32c

_log = logging.getLogger(__name__)
_CHECKED_BYTES = DURABLE_END.offset_of("crc32c")


def encode_durable_end(end: DurableEnd) -> bytes:
    """With the right checksum, whatever it has."""
    crc = crc32c(DURABLE_END.pack(end)[:_CHECKED_BYTES])
    return DURABLE_END.pack(end._replace(crc32c=crc))


def decode_durable_end(data: Buffer, *, path: PathLike) -> DurableEnd:
    if len(data) < DURABLE_END.size:
        raise Torn("a durable end that is cut short", path=path, offset=0, found=len(data))
    end = DURABLE_END.unpack(data)
    if end.magic != DURABLE_END_MAGIC or crc32c(data[:_CHECKED_BYTES]) != end.crc32c:
        raise Corrupt("not a durable end", path=path, offset=0)
    if end.version > VERSION:
        raise UnknownVersion("durable end", path=path, expected=VERSION, found=end.version)
    return end


def load_durable_end(disk: Disk, path: str) -> DurableEnd | None:
    """What it says, or None if it is missing or damaged: it is advice."""
    try:
        return decode_durable_end(read_file(disk, path, size_max=DURABLE_END.size), path=path)
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

    def start(self, *, base_offset: int, position: int, next_offset: int) -> None:
        """Replace what an earlier writer left, durably; from here on it is overwritten in place."""
        data = self._encode(base_offset, position, next_offset)
        replace_atomically(self._disk, self._path, data)
        self._file = self._disk.open(self._path, writable=True)

    def publish(self, *, base_offset: int, position: int, next_offset: int) -> None:
        """Tell the other processes. A failure only keeps the news from them."""
        assert self._file is not None
        try:
            self._file.pwrite(0, self._encode(base_offset, position, next_offset))
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

    def _encode(self, base_offset: int, position: int, next_offset: int) -> bytes:
        return encode_durable_end(
            DurableEnd(
                magic=DURABLE_END_MAGIC,
                version=VERSION,
                flags=0,
                boot_id=self._boot_id,
                writer_epoch=self._writer_epoch,
                base_offset=base_offset,
                position=position,
                next_offset=next_offset,
                crc32c=0,
            )
        )
