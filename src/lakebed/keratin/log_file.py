"""The header of a `.log` file.

A header of the current version may be longer than `LOG_HEADER`, because it has additional fields at
its end. Its checksum covers those fields too, and the records begin after them.
"""

from __future__ import annotations

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.base.layout import Buffer
from lakebed.keratin.format import HEADER_BYTES_MAX, LOG_HEADER, LOG_MAGIC, VERSION, LogHeader
from lakebed.kernels import crc32c

_RESERVED = bytes(32)
_CHECKED_BYTES = LOG_HEADER.offset_of("crc32c")


def encode_log_header(*, base_offset: int, created_ms: int) -> bytes:
    header = LogHeader(
        magic=LOG_MAGIC,
        version=VERSION,
        flags=0,
        header_length=LOG_HEADER.size,
        base_offset=base_offset,
        created_ms=created_ms,
        reserved=_RESERVED,
        crc32c=0,
    )
    crc = crc32c(LOG_HEADER.pack(header)[:_CHECKED_BYTES])
    return LOG_HEADER.pack(header._replace(crc32c=crc))


def decode_log_header(data: Buffer, *, path: PathLike, base_offset: int) -> LogHeader:
    """Decodes the header of the segment that begins at `base_offset`.

    `data` holds the first `HEADER_BYTES_MAX` bytes of the file, or all of them if there are fewer.
    Raises `Torn` if `data` is shorter than `LOG_HEADER`, `Corrupt` if it does not begin with a good
    header of this segment, and `UnknownVersion` if a newer release wrote it.
    """
    if len(data) < LOG_HEADER.size:
        raise Torn("the log is shorter than its header", path=path, offset=0, found=len(data))
    header = LOG_HEADER.unpack(data)
    if header.magic != LOG_MAGIC:
        raise Corrupt(
            "not a log: its magic number is wrong",
            path=path,
            offset=0,
            expected=LOG_MAGIC,
            found=header.magic,
        )
    crc = crc32c(data[:_CHECKED_BYTES])
    if LOG_HEADER.size < header.header_length <= HEADER_BYTES_MAX:
        crc = crc32c(data[LOG_HEADER.size : header.header_length], crc)
    if header.version > VERSION and (
        crc == header.crc32c or header.header_length != LOG_HEADER.size
    ):
        # A flipped bit in the version would leave the length as ours and the checksum wrong.
        raise UnknownVersion(
            "unsupported log version", path=path, expected=VERSION, found=header.version
        )
    if crc != header.crc32c:
        raise Corrupt(
            "the checksum of the log header is wrong",
            path=path,
            offset=0,
            expected=header.crc32c,
            found=crc,
        )
    is_length_right = LOG_HEADER.size <= header.header_length <= min(HEADER_BYTES_MAX, len(data))
    if not is_length_right or header.base_offset != base_offset:
        raise Corrupt(
            "the log header has the wrong length or base offset",
            path=path,
            offset=0,
            expected=(LOG_HEADER.size, base_offset),
            found=(header.header_length, header.base_offset),
        )
    return header
