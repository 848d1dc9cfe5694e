"""The file `durable_end`, which shows other processes how far they may read a partition.

It is overwritten after each sync. After a power loss or a failed write of this file, the end in the
file may be before the real durable end, but never after it.
"""

from __future__ import annotations

from functools import partial

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import Disk, PathLike
from lakebed.base.files.notice import Notice, read_notice
from lakebed.base.layout import Buffer
from lakebed.keratin.format import DURABLE_END, DURABLE_END_MAGIC, VERSION, DurableEnd
from lakebed.kernels import crc32c

_CHECKED_BYTES = DURABLE_END.offset_of("crc32c")


def encode_durable_end(end: DurableEnd) -> bytes:
    """Encodes `end` with a newly computed checksum; the checksum in `end` is ignored."""
    crc = crc32c(DURABLE_END.pack(end)[:_CHECKED_BYTES])
    return DURABLE_END.pack(end._replace(crc32c=crc))


def decode_durable_end(data: Buffer, *, path: PathLike) -> DurableEnd:
    if len(data) < DURABLE_END.size:
        raise Torn("the durable_end file is cut short", path=path, offset=0, found=len(data))
    end = DURABLE_END.unpack(data)
    if end.magic != DURABLE_END_MAGIC or crc32c(data[:_CHECKED_BYTES]) != end.crc32c:
        raise Corrupt(
            "not a valid durable_end file: its magic or checksum is wrong", path=path, offset=0
        )
    if end.version > VERSION:
        raise UnknownVersion(
            "unsupported durable_end version", path=path, expected=VERSION, found=end.version
        )
    return end


def load_durable_end(disk: Disk, path: str) -> DurableEnd | None:
    """Returns the published end, or None if the file is missing or damaged.

    Callers must be able to work without the published end. Raises `UnknownVersion` if a newer
    release wrote the file.
    """
    decode = partial(decode_durable_end, path=path)
    return read_notice(disk, path, size=DURABLE_END.size, decode=decode)


class DurableEndFile:
    """The file `durable_end`, opened by the writer of a partition."""

    def __init__(self, disk: Disk, path: str, *, writer_epoch: int) -> None:
        self._notice = Notice(disk, path)
        self._writer_epoch = writer_epoch
        self._boot_id = disk.boot_id()

    def start(self, *, base_offset: int, position: int, next_offset: int) -> None:
        """Durably publishes the first end, in a new file that replaces any earlier one."""
        self._notice.start(self._encode(base_offset, position, next_offset))

    def publish(self, *, base_offset: int, position: int, next_offset: int) -> None:
        self._notice.publish(self._encode(base_offset, position, next_offset))

    def close(self) -> None:
        self._notice.close()

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
