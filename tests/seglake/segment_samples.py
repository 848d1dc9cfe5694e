"""Segments as bytes, and as files that need no disk."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from lakebed.base.files import File
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.kernels.checksum import blake3
from lakebed.seglake.segment_file import IndexEntry, record_header, seal_block, segment_header

PATH = "/1.seg"


def file_of(data: bytes) -> File:
    file = SimulatedDisk(Random(0)).create(PATH)
    file.pwrite(0, data)
    return file


def record(data: bytes) -> bytes:
    return record_header(blake3(data), len(data)) + data


def open_segment(chunks: Sequence[bytes]) -> bytes:
    """One that was not sealed."""
    return segment_header() + b"".join(map(record, chunks))


def entries_of(chunks: Sequence[bytes]) -> list[IndexEntry]:
    entries = []
    end = len(segment_header())
    for data in chunks:
        offset = end + len(record(data)) - len(data)
        entries.append(IndexEntry(offset, blake3(data)))
        end = offset + len(data)
    return entries


def sealed_segment(chunks: Sequence[bytes]) -> bytes:
    data = open_segment(chunks)
    return data + seal_block(entries_of(chunks), data_end=len(data)).data


def flipped(data: bytes, offset: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[offset] ^= 1 << bit
    return bytes(changed)
