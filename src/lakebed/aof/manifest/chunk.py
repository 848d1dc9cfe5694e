"""Encodes, decodes and checks the chunks of a manifest log.

A chunk is checked as a whole before any of its records is used. Every chunk but the last is sealed
before the next chunk is created. A sealed chunk is *whole* if its checksum matches, and *corrupt*
otherwise. The last chunk may still be open for writing. If it is not sealed and its checksum does
not match, its records are checked one by one up to the first bad record: the chunk is *corrupt* if
a good record follows that record, and otherwise *torn*, as after a crash during a commit.

The header has no checksum. Its fields are compared with the file's name and length and with the
chunks before and after. The flags cannot be checked, and a version number that damage made larger
looks like that of a newer version of Lakebed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from lakebed.aof.manifest.format import (
    CHUNK_HEADER,
    CHUNK_MAGIC,
    CHUNK_VERSION,
    FLAG_SEALED,
    RECORD_HEADER,
    RECORDS_START,
    ChunkHeader,
    record_bytes,
)
from lakebed.aof.manifest.records import ManifestRecord, Position, decode_payload
from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.kernels import crc64nvme
from lakebed.kernels.format import AOF_ALIGNMENT


class Verdict(Enum):
    """The result of checking a chunk."""

    WHOLE = "whole"
    TORN = "torn"
    CORRUPT = "corrupt"


class PlacedRecord(NamedTuple):
    """A record and its position in the manifest log."""

    position: Position
    record: ManifestRecord


class InspectedChunk(NamedTuple):
    """The result of inspecting a chunk, with the chunk's bytes (`data`)."""

    chunk_index: int
    data: memoryview
    header: ChunkHeader | None  # None if unreadable
    verdict: Verdict
    records: list[PlacedRecord]  # the good records from the start of the chunk up to `end`
    end: int
    problem: str  # empty if the chunk is whole
    is_last: bool  # no chunk follows it

    @property
    def is_sealed(self) -> bool:
        return self.header is not None and bool(self.header.flags & FLAG_SEALED)

    @property
    def is_usable(self) -> bool:
        """Whether `records` may be replayed: the chunk is whole, or the last and not sealed."""
        return self.verdict is Verdict.WHOLE or (self.is_last and not self.is_sealed)


Plausible = Callable[[PlacedRecord], bool]
"""Returns whether to trust a record in a chunk whose checksum fails. Called in record order."""


def encode_header(
    *, chunk_index: int, base_record: int, end: int, chunk_crc64: int, flags: int
) -> bytes:
    """Returns the bytes of the header of a chunk whose records end at file offset `end`."""
    return CHUNK_HEADER.pack(
        ChunkHeader(
            magic=CHUNK_MAGIC,
            version=CHUNK_VERSION,
            header_len=CHUNK_HEADER.size,
            chunk_index=chunk_index,
            base_record=base_record,
            tail_offset=end,
            committed_len=end,
            chunk_crc64=chunk_crc64,
            flags=flags,
        )
    )


def decode_header(data: memoryview, chunk_index: int) -> ChunkHeader:
    """Decodes the header of the chunk with that index.

    Raises `Torn` if the header is all zero or incomplete, `UnknownVersion` if a newer version wrote
    it, and `Corrupt` if it is damaged or belongs to another chunk.
    """
    header = CHUNK_HEADER.unpack(data)
    if not any(data[: CHUNK_HEADER.size]):
        raise Torn("the chunk's header is all zero", offset=0)
    if header.magic != CHUNK_MAGIC:
        raise Corrupt(
            "the chunk begins with a wrong magic number",
            expected=hex(CHUNK_MAGIC),
            found=hex(header.magic),
        )
    if header.version > CHUNK_VERSION:
        raise UnknownVersion(
            "the manifest chunk was written by a newer version of Lakebed: "
            "use that version or a newer one",
            expected=CHUNK_VERSION,
            found=header.version,
        )
    expected = (CHUNK_VERSION, CHUNK_HEADER.size, chunk_index)
    actual = (header.version, header.header_len, header.chunk_index)
    if expected != actual:
        raise Corrupt(
            "the chunk's header has a wrong version, length or chunk index",
            expected=expected,
            found=actual,
        )
    is_sealed = bool(header.flags & FLAG_SEALED)
    lowest_tail = header.committed_len
    if (
        header.committed_len < RECORDS_START
        or header.committed_len % AOF_ALIGNMENT
        or header.tail_offset < lowest_tail
        or (is_sealed and header.tail_offset != lowest_tail)
    ):
        raise Corrupt(
            "the committed length and the tail offset in the chunk's header are not valid",
            expected=f"a committed length of at least {RECORDS_START}, a multiple of "
            f"{AOF_ALIGNMENT}, and a tail offset not below it (in a sealed chunk, equal to it)",
            found=(header.committed_len, header.tail_offset),
        )
    return header


def inspect_chunk(
    data: memoryview,
    chunk_index: int,
    *,
    is_last: bool = True,
    plausibility: Callable[[], Plausible] | None = None,
) -> InspectedChunk:
    """Checks the bytes of a chunk. Raises `UnknownVersion` if a newer version wrote it.

    `is_last` means that no chunk follows this chunk. `plausibility` is called if the chunk does not
    match its header; it returns a function that decides which records to trust. By default, all
    records with a correct checksum are trusted.
    """
    try:
        header = decode_header(data, chunk_index)
    except UnknownVersion:
        raise
    except DataError as error:
        return _walked(data, chunk_index, None, str(error), is_last, plausibility)
    committed = header.committed_len
    if len(data) < committed:
        problem = f"the file has {len(data)} bytes, but {committed} were committed"
        return _walked(data, chunk_index, header, problem, is_last, plausibility)
    if crc64nvme(data[RECORDS_START:committed]) != header.chunk_crc64:
        problem = "the chunk's checksum does not match"
        return _walked(data, chunk_index, header, problem, is_last, plausibility)
    records, end = _records(data, chunk_index, RECORDS_START, committed)
    if end != committed:
        # Committed bytes that are not records: a bug in the writer, or a forged checksum.
        problem = f"at byte {end}: not a valid record, although the chunk's checksum matches"
        return InspectedChunk(
            chunk_index, data, header, Verdict.CORRUPT, records, end, problem, is_last
        )
    return InspectedChunk(chunk_index, data, header, Verdict.WHOLE, records, end, "", is_last)


def salvage(data: memoryview, chunk_index: int) -> list[PlacedRecord]:
    """Returns every good record of a damaged chunk, including those after damage."""
    salvaged: list[PlacedRecord] = []
    start: int | None = RECORDS_START
    while start is not None:
        records, end = _records(data, chunk_index, start, len(data))
        salvaged += records
        start = _find_record(data, end + AOF_ALIGNMENT)
    return salvaged


def _walked(
    data: memoryview,
    chunk_index: int,
    header: ChunkHeader | None,
    problem: str,
    is_last: bool,
    plausibility: Callable[[], Plausible] | None,
) -> InspectedChunk:
    """Inspects a chunk that does not match its header.

    The result has the records before the first record that is damaged or not plausible.
    """
    records, end = _records(data, chunk_index, RECORDS_START, len(data))
    plausible = plausibility() if plausibility else None
    for number, placed in enumerate(records):
        if plausible is not None and not plausible(placed):
            problem += f"; at byte {placed.position.offset}: a record that is not plausible"
            records, end = records[:number], placed.position.offset
            break
    is_sealed = header is not None and bool(header.flags & FLAG_SEALED)
    may_be_torn = is_last and not is_sealed
    is_damaged = not may_be_torn or _find_record(data, end + AOF_ALIGNMENT) is not None
    verdict = Verdict.CORRUPT if is_damaged else Verdict.TORN
    return InspectedChunk(chunk_index, data, header, verdict, records, end, problem, is_last)


def _records(
    data: memoryview, chunk_index: int, start: int, end: int
) -> tuple[list[PlacedRecord], int]:
    """Returns the records of `data[start:end]` before the first bad record, and where they end."""
    records: list[PlacedRecord] = []
    values, header_bytes = RECORD_HEADER.values, RECORD_HEADER.size
    offset = start
    while (first := offset + header_bytes) <= end:
        number, flags, length, segment_id, logical_offset, timestamp_ms, crc64 = values(
            data, offset
        )
        record_end = offset + record_bytes(length)
        if not length or record_end > end:
            break
        payload = data[first : first + length]
        if crc64nvme(payload) != crc64:
            break
        try:
            decoded = decode_payload(number, payload)
        except DataError:
            break
        record = ManifestRecord(decoded, segment_id, logical_offset, timestamp_ms, flags)
        records.append(PlacedRecord(Position(chunk_index, offset), record))
        offset = record_end
    return records, offset


def _find_record(data: memoryview, start: int) -> int | None:
    """Returns the offset of the first good record at or after `start`, or None."""
    used = start + len(bytes(data[start:]).rstrip(b"\0"))
    for offset in range(start, used, AOF_ALIGNMENT):
        if _records(data, 0, offset, len(data))[0]:
            return offset
    return None
