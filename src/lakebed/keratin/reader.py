"""Reads a partition through a `PartitionView`: by offset, by time, as messages or as raw records.

Invariants:

- no message at or after the high watermark is returned; a read uses the high watermark at the time
  when it starts;
- the checksum of every record that is returned is verified;
- messages are returned in the order of their offsets, without duplicates or omissions, unless the
  caller requests to skip damage; offsets without a message are skipped, and so are control records,
  except by `fetch`;
- memory is bounded by the batch size, the longest record or one inflated batch record, whichever is
  largest;
- a wrong or missing `.idx` only costs time. An entry of a `.tidx` is used only if the record that
  it points to exists and is not newer than the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.base.files.handles import Handles, Lease
from lakebed.base.units import KIB, MIB
from lakebed.keratin.damage import DamagePolicy, OnSkipped
from lakebed.keratin.errors import OffsetOutOfRange
from lakebed.keratin.index_file import load_time_index, time_entry_before
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.paths import time_index_path
from lakebed.keratin.run import Run
from lakebed.keratin.run_decoder import batches_of
from lakebed.keratin.segment_reader import SegmentReader, open_segment
from lakebed.keratin.view import PartitionSegment, PartitionView
from lakebed.keratin.walk import Walk

HANDLES_MAX = 64
WINDOW_BYTES = 2 * MIB
_GET_BYTES = 4 * KIB  # read first for a record whose length is not known yet
_NONE = memoryview(b"")


class FetchedRecords(NamedTuple):
    """Contiguous whole records as raw bytes, as they are stored in the log."""

    data: memoryview
    base_offset: int  # of the first record: a batch may begin before the requested offset
    next_offset: int  # the offset to fetch next


class PartitionReader:
    """Reads one partition, and keeps files of its segments open for further reads.

    Thread-safe, but each iterator that it returns must be used by one thread only.
    """

    def __init__(
        self,
        view: PartitionView,
        *,
        handles_max: int = HANDLES_MAX,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._view = view
        self._window_bytes = window_bytes
        self._handles: Handles[PartitionSegment, SegmentReader] = Handles(
            self._open, _handle_key, mutex=view.runner.mutex(), count_max=handles_max
        )

    @property
    def open_count(self) -> int:
        """The number of segment files that are open now."""
        return len(self._handles)

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Yields the durable messages from `offset` on, in order.

        Stops after `max_messages`, or before the keys and values together exceed `max_bytes`; the
        first message is returned even if it is larger. Raises `OffsetOutOfRange` immediately if the
        offset is before the partition's start or after its high watermark.
        """
        window_bytes = self._window_bytes
        if max_bytes is not None:
            window_bytes = min(window_bytes, max(max_bytes, _GET_BYTES))
        if max_messages is not None:
            _check_count("max_messages", max_messages)
            window_bytes = min(window_bytes, max(_GET_BYTES * max_messages, _GET_BYTES))
        batches = self.read_batches(offset, batch_bytes_max=window_bytes)
        messages = (message for batch in batches for message in batch)
        if max_bytes is None and max_messages is None:
            return messages
        return _limited(messages, max_bytes=max_bytes, max_messages=max_messages)

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """Yields the durable messages with offsets in `[start, end)` in batches, in order.

        By default, `start` is the partition's start and `end` its current high watermark. An `end`
        after the high watermark counts as the high watermark. Raises `OffsetOutOfRange` like
        `scan_from`, `InputError` if `end` is before `start`, and `Corrupt` at damage. With
        `skip_damage`, skips each damaged range instead, and after a failed read the rest of the
        segment; calls `on_skipped` with what it skips.
        """
        policy = DamagePolicy(skip=skip_damage, on_skipped=on_skipped)
        bounds = self._bounds(start, end)
        return self._batches(*bounds, policy, batch_bytes_max or self._window_bytes)

    def read(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[Message]:
        """Yields the durable messages with offsets in `[start, end)`; see `read_batches`."""
        batches = self.read_batches(start, end, skip_damage=skip_damage, on_skipped=on_skipped)
        return (message for batch in batches for message in batch)

    def get(self, offset: int) -> Message:
        """Returns the message with that offset.

        Raises `OffsetOutOfRange` like `scan_from`, `NotFound` if no message has that offset (it was
        compacted away, never existed, or is the high watermark), and `Corrupt` if the message is
        damaged or recorded as lost.
        """
        start, end = self._bounds(offset, offset + 1)
        for batch in self._batches(start, end, _STRICT, _GET_BYTES):
            return batch.message(0)
        raise NotFound(f"{self._view.name}: there is no message with offset {offset}")

    def fetch(self, offset: int, max_bytes: int) -> FetchedRecords:
        """Returns whole records as bytes, beginning with the one that holds `offset`, or the next.

        All records come from one segment. Returns at most `max_bytes`, but at least one record,
        unless there is none at or after `offset`. Control records are included. Raises
        `OffsetOutOfRange` like `scan_from`.
        """
        start, end = self._bounds(offset, None)
        for run in self._walk(start, end, _STRICT, max_bytes):
            return FetchedRecords(run.raw(), int(run.offsets[0]), run.next_offset)
        return FetchedRecords(_NONE, end, end)

    def offset_for_time(self, timestamp_ms: int) -> int:
        """Returns the lowest offset of a message whose timestamp is at least `timestamp_ms`.

        Returns the high watermark if there is no such message. Timestamps need not be in order.
        """
        start, end = self._bounds(None, None)
        for info in self._view.segments():
            if info.next_offset <= start or info.base_offset >= end:
                continue
            first = max(start, self._first_not_older(info, timestamp_ms))
            walk = self._walk(first, min(end, info.next_offset), _STRICT, self._window_bytes)
            for run in walk:
                offset = _first_at(run, walk.path, timestamp_ms, start=first, end=end)
                if offset is not None:
                    return offset
        return end

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits until the high watermark is greater than `offset`.

        Returns True then, or False after `timeout` seconds. Raises `Closed` if the partition is
        closed.
        """
        return self._view.wait_beyond(offset, timeout)

    def close(self) -> None:
        """Closes the files. Batches that were returned before stay valid. Idempotent."""
        self._handles.close()

    def __enter__(self) -> PartitionReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, info: PartitionSegment) -> SegmentReader:
        return open_segment(self._view.disk, info, mutex=self._view.runner.mutex())

    def _lease(self, info: PartitionSegment) -> Lease[SegmentReader]:
        return self._handles.lease(info)

    def _bounds(self, start: int | None, end: int | None) -> tuple[int, int]:
        # The start is read first, because retention only moves it forward.
        first, limit = self._view.start_offset(), self._view.high_watermark()
        if start is None:
            start = min(first, limit)
        elif not first <= start <= limit:
            raise OffsetOutOfRange(self._view.name, start, start_offset=first, high_watermark=limit)
        if end is not None and end < start:
            raise InputError(f"{self._view.name}: the end {end} is before the start {start}")
        return start, limit if end is None else min(end, limit)

    def _walk(self, start: int, end: int, policy: DamagePolicy, bytes_max: int) -> Walk:
        return Walk(
            self._view, self._lease, start=start, end=end, policy=policy, bytes_max=bytes_max
        )

    def _batches(
        self, start: int, end: int, policy: DamagePolicy, bytes_max: int
    ) -> Iterator[MessageBatch]:
        walk = self._walk(start, end, policy, bytes_max)
        for run in walk:
            yield from batches_of(run, start=start, end=end, path=walk.path, policy=policy)

    def _first_not_older(self, info: PartitionSegment, timestamp_ms: int) -> int:
        """Returns an offset before which all messages of the segment are older than `timestamp_ms`.

        The offset comes from the `.tidx`. If that cannot be used, it is the base offset of the
        segment.
        """
        try:
            path = time_index_path(info.path)
            times = load_time_index(self._view.disk, path, base_offset=info.base_offset)
        except LakebedError:
            return info.base_offset
        entry = time_entry_before(times, timestamp_ms)
        if entry is None:
            return info.base_offset
        offset = info.base_offset + entry.relative_offset
        if offset >= info.next_offset:
            return info.base_offset
        try:
            run = next(iter(self._walk(offset, offset + 1, _STRICT, 0)), None)
        except LakebedError:
            return info.base_offset
        # The record must exist, and must not be newer than the entry.
        exists = run is not None and run.offset_after(0) > offset
        if run is None or not exists or run.timestamps_ms[0] > entry.timestamp_ms:
            return info.base_offset
        return offset


_STRICT = DamagePolicy(skip=False)


def _handle_key(info: PartitionSegment) -> tuple[str, bool, int, int]:
    # The key changes when a segment is sealed or replaced, so that its new file is opened.
    return info.path, info.is_sealed, info.generation, info.end if info.is_sealed else 0


def _check_count(name: str, count: int) -> None:
    if count < 0:
        raise InputError(f"{name} {count}: must not be negative")


def _limited(
    messages: Iterator[Message], *, max_bytes: int | None, max_messages: int | None
) -> Iterator[Message]:
    if max_messages == 0:
        return
    total = 0
    for count, message in enumerate(messages, start=1):
        total += len(message.key or b"") + len(message.value or b"")
        if max_bytes is not None and count > 1 and total > max_bytes:
            return
        yield message
        if count == max_messages:
            return


def _first_at(run: Run, path: str, timestamp_ms: int, *, start: int, end: int) -> int | None:
    """Returns the offset of the first message in `run` with a timestamp of `timestamp_ms` or later.

    Only offsets in `[start, end)` count. Returns None if there is no such message.
    """
    if max(run.timestamps_ms) < timestamp_ms:
        return None
    for batch in batches_of(run, start=start, end=end, path=path, policy=_STRICT):
        for offset, message_ms in zip(batch.offsets, batch.timestamps_ms, strict=True):
            if message_ms >= timestamp_ms:
                return int(offset)
    return None
