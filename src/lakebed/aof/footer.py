"""Encodes and decodes the footer of a runtime segment, with its checksum."""

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
    """Returns the footer's bytes, with its checksum filled in."""
    unsummed = SEGMENT_FOOTER.pack(footer._replace(checksum=0))
    return SEGMENT_FOOTER.pack(footer._replace(checksum=fold64(crc64nvme(unsummed))))


def decode_footer(slot: Buffer) -> SegmentFooter | None:
    """Decodes the footer from the last bytes of a segment file.

    Returns None if they are all zero, as in a segment that is not sealed. Raises `Torn` if there
    are too few bytes, `Corrupt` if they are not a footer or its checksum is wrong, and
    `UnknownVersion` if the checksum is right but the version is not supported.
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
        raise UnknownVersion(
            "the footer has an unsupported version", expected=FOOTER_VERSION, found=footer.version
        )
    return footer
