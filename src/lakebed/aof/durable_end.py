"""The file that tells readers in other processes how far they may read.

It is overwritten after each sync: after a power loss it may say less than what is durable, never
more.
"""

from __future__ import annotations

from functools import partial

from lakebed.aof.format import DurableEnd
from lakebed.aof.pointer import FILE_BYTES_MAX, decode_durable_end, encode_durable_end
from lakebed.base.files import Disk
from lakebed.base.files.notice import Notice, read_notice


def load(disk: Disk, path: str) -> DurableEnd | None:
    """What it says, or None if it is missing or damaged: it is advice."""
    decode = partial(decode_durable_end, path=path)
    return read_notice(disk, path, size=FILE_BYTES_MAX, decode=decode)


class DurableEndFile:
    """The writer's handle."""

    def __init__(self, disk: Disk, path: str, *, writer_epoch: int) -> None:
        self._notice = Notice(disk, path)
        self._writer_epoch = writer_epoch
        self._boot_id = disk.boot_id()

    def start(self, *, segment_id: int, offset: int, coordinator_watermark: int) -> None:
        """In place of what an earlier writer left, durably."""
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
