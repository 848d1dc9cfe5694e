"""Finalising a segment: its footer, and then the pointer to it."""

from __future__ import annotations

from lakebed.aof.format import FOOTER_BYTES
from lakebed.aof.paths import LogPaths
from lakebed.aof.pointer import encode_pointer
from lakebed.aof.segment import Segment
from lakebed.base.files import Disk, replace_atomically


def seal(
    disk: Disk,
    paths: LogPaths,
    segment: Segment,
    *,
    sealed_at: int,
    coordinator_watermark: int,
) -> None:
    """Write footer, sync, replace the pointer: in that order, so that it never names less.

    All records of the segment must be durable. May be repeated after `NoSpace`.
    """
    footer = segment.footer(sealed_at=sealed_at, coordinator_watermark=coordinator_watermark)
    with disk.open(paths.segment(segment.name), writable=True) as file:
        file.write_and_sync(segment.size - FOOTER_BYTES, [footer])
    pointer = encode_pointer(
        segment_id=segment.name.segment_id,
        durable_bytes=segment.end,
        coordinator_watermark=coordinator_watermark,
    )
    replace_atomically(disk, paths.pointer, pointer)
