"""Compares a segment's compressed copy (warm file or object) with what its manifest log records."""

from __future__ import annotations

from lakebed.aof.envelope import check_footer, check_header, check_size
from lakebed.aof.format import FOOTER_BYTES, RECORDS_START, SegmentFooter
from lakebed.aof.manifest.state import SegmentState
from lakebed.aof.tiers.frames import Frames
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.aof.tiers.transfer import crc64_text
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt
from lakebed.kernels import crc64nvme


def check_compressed_size(state: SegmentState, size: int) -> None:
    if size != state.compressed_bytes:
        raise Corrupt(
            "the compressed copy has the wrong size", expected=state.compressed_bytes, found=size
        )


def verify_copy(source: RangeSource, state: SegmentState) -> int:
    """Decompresses a warm file or object, and returns how many records its footer counts.

    Raises `Corrupt` if the copy is damaged, or if its size, or the length or the checksum of its
    payload, differs from `state`.
    """
    check_compressed_size(state, source.size)
    footer, crc = read_copy(source, segment_id=state.segment_id, base_offset=state.base_offset)
    recorded = (state.durable_bytes, state.segment_crc64)
    for actual in ((footer.durable_bytes, footer.payload_checksum), (footer.durable_bytes, crc)):
        if actual != recorded:
            raise Corrupt(
                "the copy's payload differs from that of the sealed segment",
                expected=_payload_text(*recorded),
                found=_payload_text(*actual),
            )
    return footer.record_count


def read_copy(
    source: RangeSource, *, segment_id: int, base_offset: int
) -> tuple[SegmentFooter, int]:
    """Decompresses a segment's copy; returns its footer and the computed checksum of its payload.

    The caller compares the checksum. Raises `Corrupt` if the copy is damaged, or has no header or
    footer of this segment.
    """
    frames = Frames(source)
    info = SegmentInfo(segment_id, base_offset, 0, source.name, is_sealed=True, end=None, tier=1)
    check_size(info, size=frames.size)
    if check_header(_read(frames, 0, RECORDS_START), info, size=frames.size) is None:
        raise Corrupt("the copy of the segment has no header", offset=0)
    slot = _read(frames, frames.size - FOOTER_BYTES, frames.size)
    footer = check_footer(slot, info, size=frames.size)
    if footer is None:
        raise Corrupt("the copy of the segment has no footer", offset=frames.size - FOOTER_BYTES)
    return footer, _payload_crc64(frames, footer)


def _payload_crc64(frames: Frames, footer: SegmentFooter) -> int:
    crc, position = 0, 0
    for content in frames.inflate(frames.table.covering(0, footer.durable_bytes)):
        data = memoryview(content)[: footer.durable_bytes - position]
        crc = crc64nvme(data[max(0, RECORDS_START - position) :], crc)
        position += len(data)
    return crc


def _read(frames: Frames, start: int, end: int) -> bytes:
    covering = frames.table.covering(start, end)
    first = frames.table.inflated(covering.start).start
    return b"".join(frames.inflate(covering))[start - first : end - first]


def _payload_text(durable_bytes: int, crc64: int) -> str:
    return f"{durable_bytes} bytes with checksum {crc64_text(crc64)}"
