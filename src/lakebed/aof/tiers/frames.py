"""Fetches and decompresses the frames of a warm file.

When a file is opened, its last bytes are fetched in one request. Unless the segment is very large,
they contain the whole seek table and the frame with the footer. After that, adjacent frames are
fetched together, up to `REQUEST_BYTES_MAX` bytes in a request. Every frame is checked against its
own checksum and its entry in the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakebed.aof.tiers.dictionary import Dictionary
from lakebed.aof.tiers.errors import MissingDictionary
from lakebed.aof.tiers.format import FRAME_BYTES_MAX
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.aof.tiers.seek_table import load_seek_table
from lakebed.base.counters import Counter
from lakebed.base.errors import Corrupt, DataError
from lakebed.base.units import KIB, MIB

if TYPE_CHECKING:
    from pyzstd import ZstdError

TAIL_BYTES = 8 * KIB  # the size of a table of a thousand frames
REQUEST_BYTES_MAX = 4 * MIB
_WINDOW_LOG_MAX = (FRAME_BYTES_MAX - 1).bit_length()


class ReadCounters:
    """Counts the requests, fetched bytes and decompressed bytes of one or more readers."""

    def __init__(self) -> None:
        self.requests = Counter()
        self.fetched_bytes = Counter()
        self.inflated_bytes = Counter()


class TailSource:
    """Wraps a source, keeps its last bytes in memory, and counts requests and fetched bytes."""

    def __init__(self, source: RangeSource, counters: ReadCounters) -> None:
        self._source = source
        self._counters = counters
        self.name = source.name
        self.size = source.size
        self._tail_start = self.size
        self._tail = b""
        start = max(0, self.size - TAIL_BYTES)
        if start < self.size:
            self._tail = self._fetch(start, self.size)
            self._tail_start = start

    def read_range(self, offset: int, length: int) -> bytes:
        end = offset + length
        if end <= self._tail_start:
            return self._fetch(offset, end)
        kept = self._tail[max(0, offset - self._tail_start) : end - self._tail_start]
        if offset >= self._tail_start:
            return kept
        return self._fetch(offset, self._tail_start) + kept

    def close(self) -> None:
        self._source.close()

    def _fetch(self, start: int, end: int) -> bytes:
        data = self._source.read_range(start, end - start)
        self._counters.requests.add()
        self._counters.fetched_bytes.add(len(data))
        return data


class Frames:
    """Fetches and decompresses the frames of one warm file. Thread-safe.

    Only the last bytes of the file are cached.
    """

    def __init__(
        self,
        source: RangeSource,
        *,
        dictionary: Dictionary | None = None,
        counters: ReadCounters | None = None,
    ) -> None:
        """Fetches the seek table; raises a `DataError` if the source is not a warm file."""
        self._counters = counters or ReadCounters()
        self._source = TailSource(source, self._counters)
        self._dictionary = dictionary
        self.name = source.name
        self.table = load_seek_table(self._source)

    @property
    def size(self) -> int:
        """The total decompressed size of all frames, which is the size of the segment's file."""
        return self.table.inflated_bytes

    def inflate(self, frames: range) -> Iterator[bytes]:
        """Yields the decompressed content of each of these frames, in order."""
        for run in self.table.runs(frames, bytes_max=REQUEST_BYTES_MAX):
            start = self.table.compressed(run.start).start
            end = self.table.compressed(run.stop - 1).stop
            data = memoryview(self._source.read_range(start, end - start))
            for frame in run:
                place = self.table.compressed(frame)
                yield self._inflate(frame, data[place.start - start : place.stop - start])

    def close(self) -> None:
        self._source.close()

    def _inflate(self, frame: int, data: memoryview) -> bytes:
        from pyzstd import DParameter, ZstdDecompressor, ZstdError

        decompressor = ZstdDecompressor(
            self._dictionary.loaded if self._dictionary else None,
            {DParameter.windowLogMax: _WINDOW_LOG_MAX},
        )
        expected = len(self.table.inflated(frame))
        try:
            # Request one byte more than there is: only then zstd checks the checksum at the end.
            content = decompressor.decompress(data, expected + 1)
        except ZstdError as error:
            raise self._damaged(frame, data, error) from None
        if len(content) != expected or not decompressor.eof or decompressor.unused_data:
            raise Corrupt(
                f"frame {frame} does not match its entry in the seek table",
                path=self.name,
                offset=self.table.compressed(frame).start,
                expected=f"{expected} bytes",
                found=len(content),
            )
        self._counters.inflated_bytes.add(expected)
        return content

    def _damaged(self, frame: int, data: memoryview, error: ZstdError) -> DataError:
        from pyzstd import ZstdError, get_frame_info

        offset = self.table.compressed(frame).start
        try:
            required_id = get_frame_info(data).dictionary_id
        except ZstdError:
            required_id = 0
        loaded_id = self._dictionary.dictionary_id if self._dictionary else 0
        if required_id not in (0, loaded_id):
            return MissingDictionary(
                "the file was compressed with a zstd dictionary that is not loaded",
                path=self.name,
                expected=required_id,
                found=loaded_id or "none",
            )
        return Corrupt(f"frame {frame} is damaged: {error}", path=self.name, offset=offset)
