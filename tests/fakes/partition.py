"""A partition whose files are built by hand, step by step: appended, published, rolled, removed.

It is the writer that readers are tested beside: a `PartitionView` of its own, and the files that
another process sees. It is not durable and not thread-safe beyond what its methods say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakebed.base.clock import NS_PER_S
from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.errors import Closed
from lakebed.base.files import Disk, File, replace_atomically
from lakebed.base.runner import Runner
from lakebed.keratin.compression import Compression
from lakebed.keratin.durable_end import encode_durable_end
from lakebed.keratin.format import (
    DURABLE_END_MAGIC,
    RECORDS_START,
    VERSION,
    DurableEnd,
    IndexEntry,
    ManifestSegment,
    RecordFlags,
    TimeEntry,
)
from lakebed.keratin.headers import Header, encode_headers
from lakebed.keratin.index_file import encode_index, encode_time_index
from lakebed.keratin.log_file import encode_log_header
from lakebed.keratin.manifest import PartitionManifest, replace_manifest
from lakebed.keratin.message import Message
from lakebed.keratin.paths import PartitionPaths, SegmentFile, TopicPaths
from lakebed.keratin.record_batch import BatchAttributes, build
from lakebed.keratin.segment_rewrite import RewrittenSegment
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import keratin_encode

CREATED_MS = 1_700_000_000_000


class FakeSegment:
    """One log, and what was written into it."""

    def __init__(self, path: str, file: File, *, base_offset: int) -> None:
        self.path = path
        self.file = file
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.end = RECORDS_START
        self.messages: list[Message] = []
        self.positions: list[int] = []  # of its records
        self.places: list[IndexEntry] = []
        self.times: list[TimeEntry] = []
        self.timestamp_ms_max = 0
        self.is_sealed = False
        self.generation = 0

    def info(self) -> PartitionSegment:
        return PartitionSegment(
            self.base_offset, self.next_offset, self.path, self.end, self.is_sealed, self.generation
        )


class FakePartition:
    """The view of its writer, and the writer's moves."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        runner: Runner,
        segment_bytes: int = 4096,
        stride_bytes: int = 256,
        first_offset: int = 0,
        zeros_bytes: int = 512,
    ) -> None:
        self.paths: PartitionPaths = TopicPaths(root, "orders").partition(0)
        self.paths.ensure(disk)
        self.built: list[FakeSegment] = []
        self._disk = disk
        self._runner = runner
        self._segment_bytes = segment_bytes
        self._stride_bytes = stride_bytes
        self._zeros_bytes = zeros_bytes
        self._next_offset = self._start_offset = first_offset
        self._durable_offset = first_offset
        self._durable_end = RECORDS_START
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._is_closed = False
        self._moved = runner.event()
        self._begin()

    # What readers see.

    @property
    def name(self) -> str:
        return self.paths.name

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def runner(self) -> Runner:
        return self._runner

    def segments(self) -> Sequence[PartitionSegment]:
        infos = [segment.info() for segment in self.built]
        active = replace(infos[-1], next_offset=self._durable_offset, end=self._durable_end)
        return [*infos[:-1], active]

    def lost_offsets(self) -> Sequence[DamageRecord]:
        return ()

    def start_offset(self) -> int:
        return self._start_offset

    def high_watermark(self) -> int:
        return self._durable_offset

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        clock = self._runner.clock
        deadline = clock.monotonic_ns() + round((timeout or 0) * NS_PER_S)
        while True:
            moved = self._moved
            if self._durable_offset > offset:
                return True
            if self._is_closed:
                raise Closed("the partition is closed")
            left = (deadline - clock.monotonic_ns()) / NS_PER_S
            if timeout is not None and left <= 0:
                return False
            moved.wait(None if timeout is None else left)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._callbacks[key] = callback
        return lambda: (self._callbacks.pop(key, None), None)[1]

    # What the writer does.

    @property
    def active(self) -> FakeSegment:
        return self.built[-1]

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: int = CREATED_MS,
    ) -> Message:
        """Into the file, but not durable; a segment that is full is sealed."""
        flags = RecordFlags.TOMBSTONE if value is None else 0
        offset = self._next_offset
        block = encode_headers(key, None, headers)
        self._write(value or b"", block, flags=int(flags), timestamp_ms=timestamp_ms, count=1)
        message = Message(offset, timestamp_ms, key, value, tuple(headers), int(flags))
        self.active.messages.append(message)
        return message

    def append_batch(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        timestamps_ms: Sequence[int] | None = None,
        headers: Sequence[Sequence[Header]] | None = None,
        compression: Compression = Compression.NONE,
        attributes: BatchAttributes = BatchAttributes(0),  # noqa: B008
    ) -> list[Message]:
        """One batch record; its messages."""
        offset = self._next_offset
        stamps = list(timestamps_ms or [CREATED_MS] * len(values))
        data = build(
            values,
            timestamps_ms=stamps,
            keys=keys,
            headers=headers,
            first_offset=offset,
            compression=compression,
            attributes=attributes,
        )
        flags = int(RecordFlags.BATCH)
        self._write(data, b"", flags=flags, timestamp_ms=max(stamps), count=len(values))
        messages = [
            Message(
                offset + index,
                stamps[index],
                keys[index] if keys else None,
                value,
                tuple(headers[index]) if headers else (),
                int(RecordFlags.TOMBSTONE) if value is None else 0,
            )
            for index, value in enumerate(values)
        ]
        if not attributes & BatchAttributes.CONTROL:
            self.active.messages.extend(messages)
        return messages

    def append_control(self, payload: bytes = b"mark") -> None:
        flags = int(RecordFlags.CONTROL)
        self._write(payload, b"", flags=flags, timestamp_ms=CREATED_MS, count=1)

    def append_raw(self, payload: bytes, *, flags: int = 0, count: int = 1) -> None:
        """A record of any kind, which is no message of the model."""
        self._write(payload, b"", flags=flags, timestamp_ms=CREATED_MS, count=count)

    def skip_offsets(self, count: int) -> None:
        """Leave a gap, as compaction does."""
        self._next_offset += count

    def roll(self) -> None:
        """Seal the active segment, unless it is empty, and begin the next one."""
        if self.active.positions:
            self.seal()
            self._begin()

    def seal(self) -> None:
        segment = self.active
        segment.next_offset = self._next_offset
        segment.file.truncate(segment.end)
        last = max(self._next_offset - 1 - segment.base_offset, 0)
        segment.times.append(TimeEntry(segment.timestamp_ms_max, last, 0))
        self.write_indexes(segment)
        segment.is_sealed = True

    def publish(self, *, to_file: bool = True) -> None:
        """All that was appended is durable, and everybody is told."""
        self.active.next_offset = self._next_offset
        self._durable_offset, self._durable_end = self._next_offset, self.active.end
        if to_file:
            self.write_indexes(self.active)
            self.write_durable_end()
            self.write_manifest()
        moved, self._moved = self._moved, self._runner.event()
        moved.set()
        for callback in list(self._callbacks.values()):
            callback()

    def write_indexes(self, segment: FakeSegment) -> None:
        facts = {"base_offset": segment.base_offset, "created_ms": CREATED_MS}
        index, times = encode_index(segment.places, **facts), None
        times = encode_time_index(segment.times, **facts)
        for file, data in ((SegmentFile.INDEX, index), (SegmentFile.TIME_INDEX, times)):
            replace_atomically(self._disk, self.paths.segment(segment.base_offset, file), data)

    def write_durable_end(self, *, boot_id: bytes | None = None) -> None:
        data = encode_durable_end(
            DurableEnd(
                magic=DURABLE_END_MAGIC,
                version=VERSION,
                flags=0,
                boot_id=boot_id or self._disk.boot_id(),
                writer_epoch=1,
                base_offset=self.active.base_offset,
                position=self._durable_end,
                next_offset=self._durable_offset,
                crc32c=0,
            )
        )
        replace_atomically(self._disk, self.paths.durable_end, data)

    def manifest(self) -> PartitionManifest:
        return PartitionManifest(
            created_ms=CREATED_MS,
            segment_bytes_max=self._segment_bytes,
            index_stride_bytes=self._stride_bytes,
            open_segments_max=64,
            active_base_offset=self.active.base_offset,
            next_offset=self._durable_offset,
            start_offset=self._start_offset,
            segments=tuple(self._manifest_segment(one) for one in self.built if one.is_sealed),
        )

    def write_manifest(self) -> None:
        replace_manifest(self._disk, self.paths.manifest, self.manifest())

    def remove_oldest(self) -> None:
        """As retention does: the list first."""
        segment = self.built.pop(0)
        self._start_offset = max(self._start_offset, segment.next_offset)
        self.write_manifest()
        segment.file.close()
        for file in (SegmentFile.INDEX, SegmentFile.TIME_INDEX, SegmentFile.LOG):
            self._disk.unlink(self.paths.segment(segment.base_offset, file))

    def take_over(self, rewritten: RewrittenSegment) -> None:
        """A segment in its new file, as compaction and repair leave it."""
        info = rewritten.info
        (segment,) = (one for one in self.built if one.base_offset == info.base_offset)
        segment.file.close()
        segment.file = self._disk.open(segment.path, writable=True)
        segment.end, segment.generation = info.end, info.generation
        self.write_manifest()

    def truncate_before(self, offset: int) -> None:
        self._start_offset = offset

    def close(self) -> None:
        """The partition, for its readers and for good."""
        self._is_closed = True
        for segment in self.built:
            segment.file.close()
        self.publish(to_file=False)

    def kept(self) -> list[Message]:
        """The messages that are there and durable."""
        messages = [message for segment in self.built for message in segment.messages]
        return [one for one in messages if self._start_offset <= one.offset < self._durable_offset]

    def _begin(self) -> None:
        base = self._next_offset
        path = self.paths.segment(base, SegmentFile.LOG)
        file = self._disk.create(path)
        file.pwrite(0, encode_log_header(base_offset=base, created_ms=CREATED_MS))
        self.built.append(FakeSegment(path, file, base_offset=base))
        if len(self.built) > 1:
            self._durable_end = RECORDS_START if self._durable_offset == base else self._durable_end

    def _write(
        self, payload: bytes, block: bytes, *, flags: int, timestamp_ms: int, count: int
    ) -> None:
        offset = self._next_offset
        encoded = keratin_encode(
            [payload],
            [block],
            offsets=offset,
            timestamps_ms=timestamp_ms,
            flags=flags,
            capacity=1 << 30,
        )
        segment = self.active
        if segment.positions and segment.end + len(encoded.data) > self._segment_bytes:
            self.roll()
            segment = self.active
        segment.file.pwrite(segment.end, encoded.data + bytes(self._zeros_bytes))
        segment.timestamp_ms_max = max(segment.timestamp_ms_max, timestamp_ms)
        mark = segment.places[-1].position if segment.places else RECORDS_START
        if segment.end - mark >= self._stride_bytes:
            relative = offset - segment.base_offset
            segment.places.append(IndexEntry(relative, 0, segment.end))
            segment.times.append(TimeEntry(segment.timestamp_ms_max, relative, 0))
        segment.positions.append(segment.end)
        segment.end += len(encoded.data)
        self._next_offset += count

    def _manifest_segment(self, segment: FakeSegment) -> ManifestSegment:
        path = self.paths.segment(segment.base_offset, SegmentFile.INDEX)
        with self._disk.open(path) as file:
            index_bytes = file.size()
        return ManifestSegment(
            segment.base_offset, segment.next_offset - 1, segment.end, index_bytes
        )
