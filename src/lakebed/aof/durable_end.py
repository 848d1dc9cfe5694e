"""The `durable_end` file of a log: the position up to which other processes may read.

The writer overwrites it after each sync of the log. After a power loss it may give a position
before the real durable end, but never after it.
"""

from __future__ import annotations

from functools import partial

from lakebed.aof.format import DurableEnd
from lakebed.aof.pointer import FILE_BYTES_MAX, decode_durable_end, encode_durable_end
from lakebed.base.files import Disk
from lakebed.base.files.notice import Notice, read_notice


def load(disk: Disk, path: str) -> DurableEnd | None:
    """Returns the content of the `durable_end` file, or None if it is missing or damaged.

    Damage is only logged, because a log can be read without this file. Raises `UnknownVersion` if
    the file has a version that this program cannot read.
    """
    decode = partial(decode_durable_end, path=path)
    return read_notice(disk, path, size=FILE_BYTES_MAX, decode=decode)


class DurableEndFile:
    """Writes the `durable_end` file of one log that is open for writing."""

    def __init__(self, disk: Disk, path: str, *, writer_epoch: int) -> None:
        self._notice = Notice(disk, path)
        self._writer_epoch = writer_epoch
        self._boot_id = disk.boot_id()

    def start(self, *, segment_id: int, offset: int, coordinator_watermark: int) -> None:
        """Durably creates the file, or replaces the file that an earlier writer left."""
        self._notice.start(self._encode(segment_id, offset, coordinator_watermark))

    def publish(self, *, segment_id: int, offset: int, coordinator_watermark: int) -> None:
        self._notice.publish(self._encode(segment_id, offset, coordinator_watermark))

    def close(self) -> None:
        self._notice.close()

    def _encode(self, segment_id: int, offset: int, coordinator_watermark: int) -> bytes:
        return encode_durable_end(
            boot_id=self._boot_id,
            writer_epoch=self._writer_epoch,
            segment_id=segment_id,
            offset=offset,
            coordinator_watermark=coordinator_watermark,
        )
