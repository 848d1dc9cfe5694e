"""The seek table of a warm file: where each frame is, and how many bytes it decompresses to.

A table is checked when it is loaded: its frames must fill the file up to the table, no frame may be
empty or larger than `FRAME_BYTES_MAX`, and there may be no more frames than a segment can have.
Whether a frame really decompresses to its size is checked when it is decompressed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from lakebed.aof.tiers.format import (
    COMPRESSED_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    FRAME_COUNT_MAX,
    SEEK_CHECKSUMS,
    SEEK_ENTRY,
    SEEK_FOOTER,
    SEEK_FOOTER_MAGIC,
    SEEK_TABLE_MAGIC,
    SEGMENT_BYTES_MAX,
    SKIPPABLE,
    SeekEntry,
    SeekFooter,
)
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.base.errors import Corrupt, UnknownVersion


class SeekTable:
    """The byte ranges of all frames, in the warm file and in the decompressed segment.

    Frames are numbered from 0.
    """

    def __init__(self, entries: Iterable[SeekEntry]) -> None:
        self._compressed_ends = array("q", [0])
        self._inflated_ends = array("q", [0])
        for entry in entries:
            self._compressed_ends.append(self._compressed_ends[-1] + entry.compressed_bytes)
            self._inflated_ends.append(self._inflated_ends[-1] + entry.inflated_bytes)

    @property
    def frame_count(self) -> int:
        return len(self._inflated_ends) - 1

    @property
    def inflated_bytes(self) -> int:
        return self._inflated_ends[-1]

    @property
    def compressed_bytes(self) -> int:
        """The total size of all frames in the warm file, without the table."""
        return self._compressed_ends[-1]

    def covering(self, start: int, end: int) -> range:
        """Returns the numbers of the frames that contain the segment's bytes `[start, end)`.

        The range must be within the segment and must not be empty.
        """
        first = bisect_right(self._inflated_ends, start) - 1
        last = bisect_right(self._inflated_ends, end - 1) - 1
        return range(first, last + 1)

    def inflated(self, frame: int) -> range:
        """Returns the range of a frame's bytes in the decompressed segment."""
        return range(self._inflated_ends[frame], self._inflated_ends[frame + 1])

    def compressed(self, frame: int) -> range:
        """Returns the range of a frame's bytes in the warm file."""
        return range(self._compressed_ends[frame], self._compressed_ends[frame + 1])

    def runs(self, frames: range, *, bytes_max: int) -> Iterator[range]:
        """Divides `frames` into ranges to fetch with one request each, and yields them.

        A range has at most `bytes_max` compressed bytes, unless it is a single larger frame.
        """
        first = frames.start
        for frame in frames:
            if self._compressed_ends[frame + 1] - self._compressed_ends[first] > bytes_max:
                if frame > first:
                    yield range(first, frame)
                first = frame
        if first < frames.stop:
            yield range(first, frames.stop)


def load_seek_table(source: RangeSource) -> SeekTable:
    """Reads and checks the table at the end of a warm file.

    Raises `Corrupt` if it is invalid, and `UnknownVersion` if it has checksums, which are not
    supported.
    """
    footer = _load_footer(source)
    table_bytes = SKIPPABLE.size + footer.frame_count * SEEK_ENTRY.size + SEEK_FOOTER.size
    if not 0 < footer.frame_count <= FRAME_COUNT_MAX or table_bytes > source.size:
        raise _wrong(source, "frame count", found=footer.frame_count)
    data = memoryview(source.read_range(source.size - table_bytes, table_bytes))
    header = SKIPPABLE.unpack(data)
    if header.magic != SEEK_TABLE_MAGIC or header.length != table_bytes - SKIPPABLE.size:
        raise _wrong(source, "header", found=hex(header.magic))
    table = SeekTable(_checked(source, data[SKIPPABLE.size : -SEEK_FOOTER.size]))
    if table.compressed_bytes != source.size - table_bytes:
        raise _wrong(source, "total size of frames", found=table.compressed_bytes)
    if table.inflated_bytes > SEGMENT_BYTES_MAX:
        raise _wrong(source, "total decompressed size", found=table.inflated_bytes)
    return table


def _load_footer(source: RangeSource) -> SeekFooter:
    if source.size < SKIPPABLE.size + SEEK_FOOTER.size:
        raise Corrupt(
            "the file is too short for a warm file", path=source.name, found=f"{source.size} bytes"
        )
    data = source.read_range(source.size - SEEK_FOOTER.size, SEEK_FOOTER.size)
    footer = SEEK_FOOTER.unpack(data)
    if footer.magic != SEEK_FOOTER_MAGIC:
        raise _wrong(source, "magic number", found=hex(footer.magic))
    if footer.descriptor == SEEK_CHECKSUMS:
        raise UnknownVersion("seek tables with checksums are not supported", path=source.name)
    if footer.descriptor:
        raise _wrong(source, "descriptor", found=hex(footer.descriptor))
    return footer


def _checked(source: RangeSource, entries: memoryview) -> Iterator[SeekEntry]:
    for number, entry in enumerate(SEEK_ENTRY.iter_unpack(entries)):
        if not (
            0 < entry.compressed_bytes <= COMPRESSED_FRAME_BYTES_MAX
            and 0 < entry.inflated_bytes <= FRAME_BYTES_MAX
        ):
            raise _wrong(source, f"size of frame {number}", found=tuple(entry))
        yield entry


def _wrong(source: RangeSource, what: str, *, found: object) -> Corrupt:
    return Corrupt(f"the seek table has a wrong {what}", path=source.name, found=found)
