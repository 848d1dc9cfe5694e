"""Checks the header and the footer of a runtime segment.

A header has no checksum, so its fields are compared with the file's name and length. A footer has a
checksum, and must contain the number of its own segment.
"""

from __future__ import annotations

from lakebed.aof.footer import decode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
    records_end_max,
)
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt, DataError, UnknownVersion
from lakebed.base.layout import Buffer


def check_size(info: SegmentInfo, *, size: int) -> None:
    """Raises `Corrupt` if the file is too short for a header and a footer."""
    least = RECORDS_START + FOOTER_BYTES
    if size < least:
        raise Corrupt(
            "the file is too short for a segment",
            path=info.path,
            expected=f"at least {least} bytes",
            found=size,
        )


def check_header(data: Buffer, info: SegmentInfo, *, size: int) -> SegmentHeader | None:
    """Returns the header, or None if all its bytes are zero, as before the first record is written.

    `size` is the file's length. Raises `Corrupt` if the header is damaged or does not match `info`
    or the file's length, and `UnknownVersion` if the header has an unsupported version.
    """
    if not any(data):
        return None
    header = SEGMENT_HEADER.unpack(data)
    if header.magic == SEGMENT_MAGIC and header.version != SEGMENT_VERSION:
        raise UnknownVersion(
            "the segment has an unsupported version",
            path=info.path,
            offset=SEGMENT_HEADER.offset_of("version"),
            expected=SEGMENT_VERSION,
            found=header.version,
        )
    expected_header = header._replace(
        magic=SEGMENT_MAGIC,
        header_length=SEGMENT_HEADER.size,
        segment_index=info.segment_id,
        base_offset=info.base_offset,
        max_size=size,
        created_at=info.created_at if info.tier == 0 else header.created_at,
    )
    for name, expected, actual in zip(header._fields, expected_header, header, strict=True):
        if expected != actual:
            raise Corrupt(
                f"the segment's header has a wrong {name}",
                path=info.path,
                offset=SEGMENT_HEADER.offset_of(name),
                expected=expected,
                found=actual,
            )
    return header


def check_footer(slot: Buffer, info: SegmentInfo, *, size: int) -> SegmentFooter | None:
    """Returns the footer, or None if all its bytes are zero, as in a segment that is not sealed.

    `slot` has the last bytes of the file, and `size` is the file's length. Raises `Corrupt` if the
    footer is damaged or does not match `info` or the file's length, `Torn` if `slot` is too short,
    and `UnknownVersion` if the footer has an unsupported version.
    """
    offset = size - FOOTER_BYTES
    try:
        footer = decode_footer(slot)
    except DataError as error:
        raise type(error)(
            error.problem,
            path=info.path,
            offset=offset,
            expected=error.expected,
            found=error.found,
        ) from None
    if footer is None:
        return None
    fits = RECORDS_START <= footer.durable_bytes <= records_end_max(size)
    if footer.segment_index != info.segment_id or not fits:
        raise Corrupt(
            "the footer is that of another segment, or of a file of another length",
            path=info.path,
            offset=offset,
        )
    return footer
