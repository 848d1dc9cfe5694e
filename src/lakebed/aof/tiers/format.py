"""The binary layout of warm files and of objects in a folder. Little-endian.

    warm   := frame* table                         the public zstd seekable format
    table  := SKIPPABLE SEEK_ENTRY* SEEK_FOOTER    an entry for each frame
    object := body SKIPPABLE metadata TRAILER      an object of Tier 2 kept in a folder

A frame is a zstd frame with a content checksum. Together the frames decompress to the whole file of
a sealed runtime segment. So record ids stay valid, and any zstd tool can restore the file. The
header and records are in frames of one size, the zeros after them in frames of `GAP_FRAME_BYTES`,
and the footer is alone in the last frame, right before the table.

The compression library writes the table, and `seek_table` parses it, so that only the needed frames
are fetched.

`metadata` is a JSON object of strings. Like the table, it is in a frame that zstd tools skip.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.layout import Layout, u8, u16, u32, u64
from lakebed.base.units import KIB, MIB


class SkippableHeader(NamedTuple):
    """The header of a skippable frame, whose bytes zstd decoders ignore."""

    magic: u32  # 0x184D2A5E of a seek table, 0x184D2A5A of an object's trailer
    length: u32  # the number of bytes that follow


class SeekEntry(NamedTuple):
    """The entry of one frame in the seek table of a warm file."""

    compressed_bytes: u32
    inflated_bytes: u32


class SeekFooter(NamedTuple):
    """The last bytes of a warm file, at the end of its seek table."""

    frame_count: u32
    descriptor: u8  # 0; bit 7: the entries have checksums, which is not supported
    magic: u32  # 0x8F92EAB1


class ObjectTrailer(NamedTuple):
    """The last bytes of the file of an object in a folder store."""

    size: u64  # size of the body
    crc64: u64  # crc64-nvme of the body
    metadata_bytes: u32  # size of the JSON before the trailer
    version: u16  # 1
    reserved: u16  # 0
    checksum: u64  # crc64-nvme of metadata and trailer with this field zero
    magic: u64  # 0x414F46324F424A54, "AOF2OBJT"


SKIPPABLE = Layout(SkippableHeader, order="<", size=8)
SEEK_ENTRY = Layout(SeekEntry, order="<", size=8)
SEEK_FOOTER = Layout(SeekFooter, order="<", size=9)
TRAILER = Layout(ObjectTrailer, order="<", size=40)

SEEK_TABLE_MAGIC = 0x184D2A5E
SEEK_FOOTER_MAGIC = 0x8F92EAB1
SEEK_CHECKSUMS = 0x80
OBJECT_TRAILER_MAGIC = 0x184D2A5A
TRAILER_MAGIC = 0x414F46324F424A54
TRAILER_VERSION = 1

FRAME_BYTES_DEFAULT = 128 * KIB
FRAME_BYTES_MIN = 4 * KIB
FRAME_BYTES_MAX = 4 * MIB
GAP_FRAME_BYTES = FRAME_BYTES_MAX
SEGMENT_BYTES_MAX = 1 << 30
FRAME_COUNT_MAX = SEGMENT_BYTES_MAX // FRAME_BYTES_MIN + 2
COMPRESSED_FRAME_BYTES_MAX = FRAME_BYTES_MAX + FRAME_BYTES_MAX // 128 + KIB
"""The maximum size of a compressed frame, above zstd's own bound for incompressible data."""
