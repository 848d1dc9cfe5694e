"""One chunk as bytes: its header, its records, and what can be believed of it.

A chunk is judged as a whole before any record of it is used. One that is sealed is *whole*, if
its checksum matches, or *corrupt*. So is one that others are behind: they are begun when it is
sealed. The last one, which is still written, may also be *torn*: the checksum that its header has
does not match because the crash of a commit left some of the bytes behind. Then its records are
walked one by one, up to the first that is bad; if good ones stand behind it, that is damage and no
torn write.

The header has no checksum. Its fields are compared with the file's name and length and with the
neighbours; the flags, and in part the version, are believed as they are.
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
    """What a chunk is."""

    WHOLE = "whole"
    TORN = "torn"
    CORRUPT = "corrupt"


class PlacedRecord(NamedTuple):
    """A record and where it is."""

    position: Position
    record: ManifestRecord


class InspectedChunk(NamedTuple):
    """A chunk that was looked at."""

    chunk_index: int
    data: memoryview
    header: ChunkHeader | None  # None if it is unreadable
    verdict: Verdict
    records: list[PlacedRecord]  # the good ones, from the start of the chunk up to `end`
    end: int
    problem: str  # empty if it is whole
    is_last: bool  # no chunk is behind it

    @property
    def is_sealed(self) -> bool:
        return self.header is not None and bool(self.header.flags & FLAG_SEALED)

    @property
    def is_usable(self) -> bool:
        """Whether its records are replayed: in part, if it is the one that was written."""
        return self.verdict is Verdict.WHOLE or (self.is_last and not self.is_sealed)


Plausible = Callable[[PlacedRecord], bool]
"""Whether a record may be believed where no checksum covers its header; asked in their order."""


def encode_header(
    *, chunk_index: int, base_record: int, end: int, chunk_crc64: int, flags: int
) -> bytes:
    """The header of a chunk that is committed up to `end`."""
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
    """The header, if it is this chunk's and can be; `Torn` if it was never written."""
    header = CHUNK_HEADER.unpack(data)
    if not any(data[: CHUNK_HEADER.size]):
        raise Torn("the chunk's header was never written", offset=0)
    if header.magic != CHUNK_MAGIC:
        raise Corrupt("wrong magic", expected=hex(CHUNK_MAGIC), found=hex(header.magic))
    if header.version > CHUNK_VERSION:
        raise UnknownVersion("manifest chunk", expected=CHUNK_VERSION, found=header.version)
    expected = (CHUNK_VERSION, CHUNK_HEADER.size, chunk_index)
    found = (header.version, header.header_len, header.chunk_index)
    if expected != found:
        raise Corrupt("the header is not this chunk's", expected=expected, found=found)
    is_sealed = bool(header.flags & FLAG_SEALED)
    lowest_tail = header.committed_len
    if (
        header.committed_len < RECORDS_START
        or header.committed_len % AOF_ALIGNMENT
        or header.tail_offset < lowest_tail
        or (is_sealed and header.tail_offset != lowest_tail)
    ):
        raise Corrupt(
            "the header's lengths cannot be",
            expected=f"{RECORDS_START} or more, in steps of {AOF_ALIGNMENT}",
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
    """What the chunk is. `UnknownVersion` if it was written by a newer program.

    `is_last` tells that no chunk is behind it. `plausibility` makes who is asked about the records,
    if the chunk's checksum fails.
    """
    try:
        header = decode_header(data, chunk_index)
    except UnknownVersion:
        raise
    except DataError as error:
        return _walked(data, chunk_index, None, str(error), is_last, plausibility)
    committed = header.committed_len
    if len(data) < committed:
        problem = f"{len(data)} bytes long, {committed} were committed"
        return _walked(data, chunk_index, header, problem, is_last, plausibility)
    if crc64nvme(data[RECORDS_START:committed]) != header.chunk_crc64:
        problem = "the chunk's checksum does not match"
        return _walked(data, chunk_index, header, problem, is_last, plausibility)
    records, end = _records(data, chunk_index, RECORDS_START, committed)
    if end != committed:
        # Committed, and yet no row of records: a writer's mistake, or a checksum made to fit.
        problem = f"at byte {end}: not a record, although the chunk's checksum matches"
        return InspectedChunk(
            chunk_index, data, header, Verdict.CORRUPT, records, end, problem, is_last
        )
    return InspectedChunk(chunk_index, data, header, Verdict.WHOLE, records, end, "", is_last)


def salvage(data: memoryview, chunk_index: int) -> list[PlacedRecord]:
    """Every good record of a damaged chunk, whatever lies between them."""
    found: list[PlacedRecord] = []
    start: int | None = RECORDS_START
    while start is not None:
        records, end = _records(data, chunk_index, start, len(data))
        found += records
        start = _find_record(data, end + AOF_ALIGNMENT)
    return found


def _walked(
    data: memoryview,
    chunk_index: int,
    header: ChunkHeader | None,
    problem: str,
    is_last: bool,
    plausibility: Callable[[], Plausible] | None,
) -> InspectedChunk:
    """A chunk that is not as its header says: the good records at its start."""
    records, end = _records(data, chunk_index, RECORDS_START, len(data))
    plausible = plausibility() if plausibility else None
    for number, placed in enumerate(records):
        if plausible is not None and not plausible(placed):
            problem += f"; at byte {placed.position.offset}: a record that cannot be"
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
    """The good records of `data[start:end]`, up to the first bad one, and where they end."""
    records: list[PlacedRecord] = []
    values, header_bytes = RECORD_HEADER.values, RECORD_HEADER.size
    offset = start
    while (first := offset + header_bytes) <= end:
        number, flags, length, segment_id, logical_offset, timestamp_ms, crc64 = values(
            data, offset
        )
        behind = offset + record_bytes(length)
        if not length or behind > end:
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
        offset = behind
    return records, offset


def _find_record(data: memoryview, start: int) -> int | None:
    """The next place at or behind `start` where a good record is."""
    used = start + len(bytes(data[start:]).rstrip(b"\0"))
    for offset in range(start, used, AOF_ALIGNMENT):
        if _records(data, 0, offset, len(data))[0]:
            return offset
    return None
