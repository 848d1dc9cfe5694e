"""Creates the warm file of a sealed runtime segment, and restores the segment from it.

Invariants: a warm file is created only from a segment whose payload matches the checksum in its
footer, and a restored segment matches it too. Either file appears whole or not at all, and is
durable when the call returns. Both directions stream: neither file is held whole in memory.

A warm file decompresses to the segment's file byte for byte: header, records, zeros and footer. The
zeros between records and footer are neither read when compressing nor written when restoring.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from lakebed.aof.envelope import check_footer, check_header
from lakebed.aof.format import (
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_HEADER,
    SegmentFooter,
    SegmentHeader,
)
from lakebed.aof.tiers.dictionary import Dictionary
from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.format import (
    FRAME_BYTES_DEFAULT,
    FRAME_BYTES_MAX,
    FRAME_BYTES_MIN,
    GAP_FRAME_BYTES,
)
from lakebed.aof.tiers.frames import Frames, ReadCounters
from lakebed.aof.tiers.ranges import FileSource, RangeSource, crc64_of
from lakebed.aof.view import SegmentInfo
from lakebed.base.config import bounded, check
from lakebed.base.errors import Corrupt
from lakebed.base.files import Disk, File, build_atomically
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.kernels import crc64nvme

if TYPE_CHECKING:
    from pyzstd import SeekableZstdFile

_READ_BYTES = MIB
_WRITE_BYTES = MIB
_WINDOW_LOG_MIN = 17  # zstd's largest block
_ZEROS = bytes(FRAME_BYTES_DEFAULT)

ShouldStop = Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Compression:
    """The settings for the compression of segments.

    Smaller frames make a single read cheaper but the file larger: compared with frames of 512 KiB,
    frames of 128 KiB make it half a percent larger, and frames of 32 KiB three percent.
    """

    level: int = bounded(3, minimum=1, maximum=22)
    frame_bytes: int = bounded(
        FRAME_BYTES_DEFAULT, minimum=FRAME_BYTES_MIN, maximum=FRAME_BYTES_MAX
    )

    def __post_init__(self) -> None:
        check(self)


class WarmFacts(NamedTuple):
    """The sizes, checksum and other properties of a warm file."""

    compressed_bytes: int
    original_bytes: int
    crc64: int  # of the whole warm file
    frame_count: int
    dictionary_id: int  # 0: none
    footer: SegmentFooter  # the segment's footer


def compress_segment(
    disk: Disk,
    source_path: str,
    target_path: str,
    *,
    compression: Compression | None = None,
    dictionary: Dictionary | None = None,
    should_stop: ShouldStop = lambda: False,
) -> WarmFacts:
    """Creates the warm file of a sealed segment, durably.

    If this raises, `target_path` is unchanged or has the complete new file. Raises a `DataError` if
    the segment is damaged or not sealed; a retry does not help then. `should_stop` is called before
    each frame; if it returns True, `Cancelled` is raised.
    """
    facts: list[WarmFacts] = []
    with disk.open(source_path) as file:
        source = FileSource(file)
        footer = _check_envelope(source.read_range, path=source.name, size=source.size)

        def build(target: File) -> None:
            sink = _Sink(target)
            settings = compression or Compression()
            with _archive(sink, settings, dictionary) as archive:
                for content in _records(source, footer, settings.frame_bytes):
                    _add_frame(archive, content, should_stop)
                _add_gap(archive, source.size - FOOTER_BYTES - footer.durable_bytes, should_stop)
                slot = source.read_range(source.size - FOOTER_BYTES, FOOTER_BYTES)
                _add_frame(archive, slot, should_stop)
                frame_count = (archive.seek_table_info or (0,))[0]
            sink.finish()
            dictionary_id = dictionary.dictionary_id if dictionary else 0
            facts.append(
                WarmFacts(sink.size, source.size, sink.crc64, frame_count, dictionary_id, footer)
            )

        build_atomically(disk, target_path, build)
    return facts[0]


def decompress_to(
    source: RangeSource,
    disk: Disk,
    target_path: str,
    *,
    dictionary: Dictionary | None = None,
    counters: ReadCounters | None = None,
    should_stop: ShouldStop = lambda: False,
) -> SegmentFooter:
    """Restores a segment's file from a warm file, durably, and returns the segment's footer.

    If this raises, `target_path` is unchanged or has the complete new file. Raises a `DataError` if
    the source is damaged. `should_stop` is called before each frame; if it returns True,
    `Cancelled` is raised.
    """
    frames = Frames(source, dictionary=dictionary, counters=counters)
    read = _reading(frames)
    footer = _check_envelope(read, path=source.name, size=frames.size)

    def build(target: File) -> None:
        target.truncate(frames.size)
        crc, position = 0, 0
        for content in frames.inflate(frames.table.covering(0, footer.durable_bytes)):
            _check_going(should_stop, f"{source.name}: the decompression")
            data = memoryview(content)[: footer.durable_bytes - position]
            target.pwrite(position, data)
            crc = crc64nvme(data[max(0, RECORDS_START - position) :], crc)
            position += len(data)
        _check_payload(crc, footer, path=source.name)
        slot = frames.size - FOOTER_BYTES
        target.write_and_sync(slot, [read(slot, FOOTER_BYTES)])

    build_atomically(disk, target_path, build)
    return footer


def warm_facts(disk: Disk, path: str, *, dictionary: Dictionary | None = None) -> WarmFacts:
    """Reads an existing warm file and returns its sizes, checksum and other properties.

    Raises a `DataError` if the file is not a warm file, or if the header or footer of the segment
    in it is damaged. The records are not verified.
    """
    with disk.open(path) as file:
        source = FileSource(file)
        frames = Frames(source, dictionary=dictionary)
        footer = _check_envelope(_reading(frames), path=path, size=frames.size)
        dictionary_id = dictionary.dictionary_id if dictionary else 0
        crc64, count = crc64_of(source), frames.table.frame_count
        return WarmFacts(source.size, frames.size, crc64, count, dictionary_id, footer)


def check_segment_file(disk: Disk, path: str) -> SegmentFooter:
    """Verifies the file of a sealed segment by reading all its records, and returns its footer.

    Raises a `DataError` if the file is damaged or not sealed.
    """
    with disk.open(path) as file:
        source = FileSource(file)
        footer = _check_envelope(source.read_range, path=source.name, size=source.size)
        for _ in _records(source, footer, _READ_BYTES):
            pass  # the iterator compares the checksum at its end
        return footer


def segment_footer(source: RangeSource, *, dictionary: Dictionary | None = None) -> SegmentFooter:
    """Reads a segment's footer from its warm file; raises a `DataError` if the file is damaged."""
    frames = Frames(source, dictionary=dictionary)
    return _check_envelope(_reading(frames), path=source.name, size=frames.size)


def segment_header(source: RangeSource, *, dictionary: Dictionary | None = None) -> SegmentHeader:
    """Reads a segment's header from its warm file; raises a `DataError` if the file is damaged."""
    frames = Frames(source, dictionary=dictionary)
    read = _reading(frames)
    _check_envelope(read, path=source.name, size=frames.size)
    return SEGMENT_HEADER.unpack(read(0, RECORDS_START))


class _Sink:
    """The file object to which the zstd library writes a warm file.

    It buffers writes, counts the bytes and computes their checksum.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._pending = bytearray()
        self._is_abandoned = False
        self.size = 0
        self.crc64 = 0

    def write(self, data: Buffer) -> int:
        if not self._is_abandoned:
            self._pending += data
            self.crc64 = crc64nvme(data, self.crc64)
            self.size += len(data)
            if len(self._pending) >= _WRITE_BYTES:
                self._file.pwrite(self.size - len(self._pending), self._pending)
                self._pending = bytearray()
        return len(data)

    def abandon(self) -> None:
        """Discards all later writes. Used after an error, because closing the library's writer
        still writes.
        """
        self._is_abandoned = True

    def finish(self) -> None:
        self._file.write_and_sync(self.size - len(self._pending), [self._pending])


@contextlib.contextmanager
def _archive(
    sink: _Sink, settings: Compression, dictionary: Dictionary | None
) -> Iterator[SeekableZstdFile]:
    from pyzstd import CParameter, SeekableZstdFile

    options: dict[int, int] = {
        CParameter.compressionLevel: settings.level,
        CParameter.checksumFlag: 1,
        # A window larger than a frame would only cost memory; a smaller one makes smaller
        # blocks, and many of them for the zeros.
        CParameter.windowLog: max(_WINDOW_LOG_MIN, (settings.frame_bytes - 1).bit_length()),
    }
    archive = SeekableZstdFile(
        cast("BinaryIO", sink),
        "w",
        level_or_option=options,
        zstd_dict=dictionary.digested if dictionary else None,
    )
    try:
        yield archive
    except BaseException:
        sink.abandon()
        raise
    finally:
        archive.close()


def _records(source: RangeSource, footer: SegmentFooter, frame_bytes: int) -> Iterator[memoryview]:
    """Yields the segment's header and records in pieces of `frame_bytes`.

    After the last piece, raises `Corrupt` if the checksum in the footer does not match.
    """
    crc = 0
    read_bytes = max(frame_bytes, _READ_BYTES // frame_bytes * frame_bytes)
    for offset in range(0, footer.durable_bytes, read_bytes):
        data = source.read_range(offset, min(read_bytes, footer.durable_bytes - offset))
        crc = crc64nvme(memoryview(data)[max(0, RECORDS_START - offset) :], crc)
        for start in range(0, len(data), frame_bytes):
            yield memoryview(data)[start : start + frame_bytes]
    _check_payload(crc, footer, path=source.name)


def _add_frame(archive: SeekableZstdFile, content: Buffer, should_stop: ShouldStop) -> None:
    _check_going(should_stop, "the compression of a segment")
    archive.write(content)
    archive.flush(archive.FLUSH_FRAME)


def _add_gap(archive: SeekableZstdFile, gap_bytes: int, should_stop: ShouldStop) -> None:
    for start in range(0, gap_bytes, GAP_FRAME_BYTES):
        _check_going(should_stop, "the compression of a segment")
        left = min(GAP_FRAME_BYTES, gap_bytes - start)
        while left:
            left -= archive.write(memoryview(_ZEROS)[:left])
        archive.flush(archive.FLUSH_FRAME)


def _reading(frames: Frames) -> Callable[[int, int], bytes]:
    def read(offset: int, length: int) -> bytes:
        covering = frames.table.covering(offset, offset + length)
        start = offset - frames.table.inflated(covering.start).start
        return b"".join(frames.inflate(covering))[start : start + length]

    return read


def _check_envelope(read: Callable[[int, int], bytes], *, path: str, size: int) -> SegmentFooter:
    """Checks the header and footer of a sealed segment of that size, and returns the footer."""
    if size < RECORDS_START + FOOTER_BYTES:
        raise Corrupt("the file is too short for a segment", path=path, found=f"{size} bytes")
    header_slot = read(0, RECORDS_START)
    header = SEGMENT_HEADER.unpack(header_slot)
    info = SegmentInfo(
        header.segment_index, header.base_offset, header.created_at, path, is_sealed=True, end=None
    )
    if check_header(header_slot, info, size=size) is None:
        raise Corrupt("the segment has no header", path=path, offset=0)
    footer = check_footer(read(size - FOOTER_BYTES, FOOTER_BYTES), info, size=size)
    if footer is None:
        raise Corrupt("the segment is not sealed", path=path, offset=size - FOOTER_BYTES)
    return footer


def _check_payload(crc: int, footer: SegmentFooter, *, path: str) -> None:
    if crc != footer.payload_checksum:
        raise Corrupt(
            "the checksum of the segment's records is wrong",
            path=path,
            expected=hex(footer.payload_checksum),
            found=hex(crc),
        )


def _check_going(should_stop: ShouldStop, what: str) -> None:
    if should_stop():
        raise Cancelled(f"{what} was stopped on request")
