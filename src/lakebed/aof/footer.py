"""The footer of a runtime segment as bytes: its checksum, and whether a slot holds one."""

from __future__ import annotations

from lakebed.aof.format import (
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_VERSION,
    SEGMENT_FOOTER,
    SegmentFooter,
)
from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.base.layout import Buffer
from lakebed.kernels import crc64nvme, fold64


def encode_footer(footer: SegmentFooter) -> bytes:
    """The footer's bytes, with the checksum that belongs to them."""
    unsummed = SEGMENT_FOOTER.pack(footer._replace(checksum=0))
    return SEGMENT_FOOTER.pack(footer._replace(checksum=fold64(crc64nvme(unsummed))))


def decode_footer(slot: Buffer) -> SegmentFooter | None:
    """The footer in the last bytes of a file; None if the slot is all zero: not sealed.

    `Corrupt` if it is anything else, `Torn` if it is short. A version is believed only where the
    checksum matches: `UnknownVersion` then.
    """
    footer = SEGMENT_FOOTER.unpack(slot)
    content = bytearray(slot[:FOOTER_BYTES])
    if not any(content):
        return None
    if footer.magic != FOOTER_MAGIC:
        raise Corrupt(
            "the footer's magic is wrong", expected=hex(FOOTER_MAGIC), found=hex(footer.magic)
        )
    checksum_at = SEGMENT_FOOTER.field("checksum")
    content[checksum_at.offset : checksum_at.offset + checksum_at.size] = bytes(checksum_at.size)
    checksum = fold64(crc64nvme(content))
    if footer.checksum != checksum:
        raise Corrupt(
            "the footer's checksum is wrong", expected=hex(checksum), found=hex(footer.checksum)
        )
    if footer.version != FOOTER_VERSION:
        raise UnknownVersion("footer", expected=FOOTER_VERSION, found=footer.version)
    return footer
