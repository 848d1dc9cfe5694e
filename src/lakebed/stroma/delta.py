"""Decodes a delta log: its header and its events, and distinguishes torn from damaged bytes.

Events are walked from the first one. At bytes that are not a good event:
- if there are only zeros up to the end of the file, the log ends;
- if no good event follows, the bytes are torn: an unfinished write, which is cut off;
- if a good event follows, the bytes are corrupt. They are reported, and the walk continues at that
  event.

A power cut may keep the last part of an unfinished write and lose its beginning. This counts as
corrupt, because it looks the same as damage, and reporting it does no harm.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from enum import Enum
from typing import NamedTuple

from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.base.files import PathLike
from lakebed.kernels import crc32c
from lakebed.stroma.events import Event, decode
from lakebed.stroma.format import (
    CHECKSUM,
    DELTA_HEADER,
    DELTA_MAGIC,
    DELTA_VERSION,
    EVENT_CHECKED_FROM,
    EVENT_HEADER,
    EVENT_MAGIC,
    EVENT_MARK,
    EVENT_VERSION,
    EVENTS_START,
    HEADER_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    REPEATED_LAYOUTS,
    RESET_TYPE,
    SINGLE_LAYOUTS,
    DeltaHeader,
)


class Verdict(Enum):
    """Whether a delta log is whole, torn or corrupt."""

    WHOLE = "whole"
    TORN = "torn"
    CORRUPT = "corrupt"


class Damage(NamedTuple):
    """Bad bytes `[start, end)` followed by good events, or an event with an invalid payload."""

    start: int
    end: int
    problem: str


class PlacedEvent(NamedTuple):
    """An event whose checksum is right: its position in the file, its type and its payload."""

    offset: int
    event_type: int
    payload: memoryview

    @property
    def end(self) -> int:
        """The position in the file after the event's checksum."""
        return self.offset + EVENT_HEADER.size + len(self.payload) + CHECKSUM.size

    def event(self) -> Event:
        return decode(self.event_type, self.payload)


def encode_header(
    *, generation: int, created_ts_ms: int, incarnation: int = 0, version: int = DELTA_VERSION
) -> bytes:
    header = DeltaHeader(
        magic=DELTA_MAGIC,
        version=version,
        flags=0,
        header_len=DELTA_HEADER.size,
        created_ts_ms=created_ts_ms,
        generation=generation,
        incarnation=incarnation,
        reserved=bytes(16),
        header_crc32c=0,
    )
    checksum = crc32c(DELTA_HEADER.pack(header)[: DELTA_HEADER.offset_of("header_crc32c")])
    return DELTA_HEADER.pack(header._replace(header_crc32c=checksum))


def decode_header(data: memoryview, *, path: PathLike | None = None) -> DeltaHeader:
    """Decodes the header of a delta log.

    Raises `Torn` if `data` is shorter than a header or the header is all zeros, `Corrupt` if it is
    damaged, and `UnknownVersion` if its version is not supported.
    """
    if len(data) < DELTA_HEADER.size:
        raise Torn("the delta log's header is cut short", path=path, offset=0,
                   expected=DELTA_HEADER.size, found=len(data))  # fmt: skip
    if not any(data[: DELTA_HEADER.size]):
        raise Torn("the delta log's header was never written", path=path, offset=0)
    header = DELTA_HEADER.unpack(data)
    if header.magic != DELTA_MAGIC:
        raise Corrupt("not a delta log: its magic number is wrong", path=path, offset=0,
                      expected=DELTA_MAGIC, found=header.magic)  # fmt: skip
    checksum = crc32c(data[: DELTA_HEADER.offset_of("header_crc32c")])
    if DELTA_HEADER.size < header.header_len <= HEADER_BYTES_MAX:  # it has unknown fields
        checksum = crc32c(data[DELTA_HEADER.size : header.header_len], checksum)
    if checksum != header.header_crc32c:
        raise Corrupt("the checksum of the delta log's header is wrong", path=path, offset=0,
                      expected=hex(header.header_crc32c), found=hex(checksum))  # fmt: skip
    if header.version != DELTA_VERSION:
        raise UnknownVersion("unsupported delta log version", path=path, expected=DELTA_VERSION,
                             found=header.version)  # fmt: skip
    if not DELTA_HEADER.size <= header.header_len <= min(HEADER_BYTES_MAX, len(data)):
        raise Corrupt("the delta log's header has a wrong length", path=path,
                      expected=DELTA_HEADER.size, found=header.header_len)  # fmt: skip
    return header


class DeltaWalk:
    """Walks the events of a delta log once.

    The counts and the list of damage are complete when the iteration ends.
    """

    def __init__(
        self, data: memoryview, *, start: int = EVENTS_START, path: PathLike | None = None
    ) -> None:
        """Prepares to walk `data` from `start`, the end of the header."""
        self._data = data
        self._path = path
        self._start = start
        self.end = start  # the end of the last good event
        self.used = len(bytes(data).rstrip(b"\0"))  # after it there are only zeros
        self.damages: list[Damage] = []
        self.event_count = 0
        self.unknown_count = 0
        self.flagged_count = 0

    @property
    def verdict(self) -> Verdict:
        if self.damages:
            return Verdict.CORRUPT
        return Verdict.TORN if self.torn_bytes else Verdict.WHOLE

    @property
    def torn_bytes(self) -> int:
        """The number of bytes after the last good event, up to the last nonzero byte."""
        return max(0, self.used - self.end)

    def __iter__(self) -> Iterator[PlacedEvent]:
        """Yields the good events. Raises `UnknownVersion` at an event of another version."""
        start: int | None = self._start
        while start is not None:
            bad_start = yield from self._row(start)
            start = self._find(bad_start + 1)
            if start is not None:
                problem = f"{start - bad_start} bytes are damaged, and good events follow them"
                self.damages.append(Damage(bad_start, start, problem))

    def _row(self, offset: int) -> Generator[PlacedEvent, None, int]:
        """Yields consecutive good events; returns the position where they end."""
        data, size = self._data, len(self._data)
        values, header_bytes, trailer_bytes = EVENT_HEADER.values, EVENT_HEADER.size, CHECKSUM.size
        while (first := offset + header_bytes) + trailer_bytes <= size:
            magic, version, event_type, flags, length = values(data, offset)
            last = first + length
            if magic != EVENT_MAGIC or length > PAYLOAD_BYTES_MAX or last + trailer_bytes > size:
                break
            if crc32c(data[offset + EVENT_CHECKED_FROM : last]) != CHECKSUM.values(data, last)[0]:
                break
            if version != EVENT_VERSION:
                raise UnknownVersion("unsupported event version", path=self._path, offset=offset,
                                     expected=EVENT_VERSION, found=version)  # fmt: skip
            self.end = last + trailer_bytes
            self.event_count += 1
            self.flagged_count += flags != 0
            self.unknown_count += not is_known(event_type)
            yield PlacedEvent(offset, event_type, data[first:last])
            offset = self.end
        return offset

    def _find(self, start: int) -> int | None:
        """Returns the position of the next good event, of any version, or None if there is none."""
        for match in EVENT_MARK.finditer(self._data[: self.used], start):
            if self._is_good(match.start()):
                return match.start()
        return None

    def _is_good(self, offset: int) -> bool:
        first = offset + EVENT_HEADER.size
        if first + CHECKSUM.size > len(self._data):
            return False
        length = EVENT_HEADER.unpack(self._data, offset).payload_len
        last = first + length
        if length > PAYLOAD_BYTES_MAX or last + CHECKSUM.size > len(self._data):
            return False
        checksum = crc32c(self._data[offset + EVENT_CHECKED_FROM : last])
        return checksum == CHECKSUM.unpack(self._data, last).crc32c


def is_known(event_type: int) -> bool:
    return (
        event_type in SINGLE_LAYOUTS or event_type in REPEATED_LAYOUTS or event_type == RESET_TYPE
    )
