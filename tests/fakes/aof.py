"""A log whose files are built by hand, step by step: appended, published, sealed and removed.

It is the writer that readers are tested beside: a `LogView` of its own, and the files that another
process sees. It is not durable and not thread-safe beyond what its methods say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    FOOTER_MAGIC,
    FOOTER_VERSION,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
    next_base_offset,
    record_bytes,
    records_end_max,
)
from lakebed.aof.holds import PositionedReader
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.pointer import encode_durable_end
from lakebed.aof.record_batch import Record
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.base.files import Disk, File
from lakebed.base.runner import Runner
from lakebed.kernels import aof_encode, crc64nvme

CREATED_AT = 1_700_000_000_000_000_000


class FakeSegment:
    """One file, and what was written into it."""

    def __init__(self, name: SegmentName, path: str, file: File, *, size: int) -> None:
        self.name = name
        self.path = path
        self.file = file
        self.size = size
        self.end = RECORDS_START
        self.records: list[Record] = []
        self.is_sealed = False

    @property
    def room(self) -> int:
        return records_end_max(self.size) - self.end

    def info(self, *, tells_end: bool) -> SegmentInfo:
        end = self.end if self.is_sealed and tells_end else None
        return SegmentInfo(*self.name, path=self.path, is_sealed=self.is_sealed, end=end)


class FakeLog:
    """The view of its writer, and the writer's moves."""

    def __init__(
        self,
        disk: Disk,
        root: str,
        *,
        runner: Runner,
        segment_bytes: int = 4096,
        first_segment_id: int = 0,
        tells_end: bool = True,
    ) -> None:
        self.paths = LogPaths(root, "log")
        self.paths.ensure(disk)
        self.records: list[Record] = []  # all that were appended, removed ones too
        self.built: list[FakeSegment] = []
        self._disk = disk
        self._runner = runner
        self._segment_bytes = segment_bytes
        self._next_id = first_segment_id
        self._next_base_offset = 0
        self._tells_end = tells_end
        self._durable_end = RecordId(0)
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._is_closed = False
        self._moved = runner.event()

    # What readers see.

    cold = None

    def on_used(self, info: SegmentInfo) -> None:
        pass

    def hold(self, reader: PositionedReader) -> None:
        pass

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def runner(self) -> Runner:
        return self._runner

    def segments(self) -> Sequence[SegmentInfo]:
        return [segment.info(tells_end=self._tells_end) for segment in self.built]

    def refresh(self) -> None:
        pass

    def durable_end(self) -> RecordId:
        return self._durable_end

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        clock = self._runner.clock
        deadline = clock.monotonic_ns() + round((timeout or 0) * NS_PER_S)
        while True:
            moved = self._moved
            if self._durable_end > position:
                return True
            if self._is_closed:
                raise Closed("the log is closed")
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

    def append(self, payload: bytes, *, timestamp: int = 0, ext_id: int = 0) -> RecordId:
        """Into the file, but not durable; a segment that is full is sealed."""
        if not self.built or self.active.room < record_bytes(len(payload)):
            self.roll()
        segment = self.active
        encoded = aof_encode([payload], timestamps=timestamp, ext_ids=ext_id, capacity=segment.room)
        if not segment.records:
            segment.file.pwrite(0, self._header(segment, timestamp, ext_id))
        segment.file.pwrite(segment.end, encoded.data)
        record_id = RecordId.from_parts(segment.name.segment_id, segment.end)
        record = Record(record_id, timestamp, ext_id, payload)
        segment.end += len(encoded.data)
        segment.records.append(record)
        self.records.append(record)
        return record_id

    def roll(self, *, seals: bool = True) -> None:
        """Activate the next segment; the one before is sealed, or stays unsealed for now."""
        if self.built:
            if seals:
                self.seal(self.active)
            self._next_base_offset = next_base_offset(self.active.name.base_offset, self.active.end)
        name = SegmentName(self._next_id, self._next_base_offset, CREATED_AT + self._next_id)
        path = self.paths.segment(name)
        file = self._disk.create(path, size=self._segment_bytes)
        self.built.append(FakeSegment(name, path, file, size=self._segment_bytes))
        self._next_id += 1

    def seal(self, segment: FakeSegment) -> None:
        if not segment.is_sealed:
            segment.file.pwrite(records_end_max(segment.size), self.footer(segment))
            segment.is_sealed = True

    def publish(self, *, to_file: bool = True) -> None:
        """All that was appended is durable, and everybody is told."""
        if self.built:
            self._durable_end = RecordId.from_parts(self.active.name.segment_id, self.active.end)
            if to_file:
                self.write_durable_end()
        self._tell()

    def write_durable_end(self, *, boot_id: bytes | None = None) -> None:
        self.write_durable_end_bytes(self.durable_end_bytes(boot_id=boot_id))

    def durable_end_bytes(self, *, boot_id: bytes | None = None) -> bytes:
        return encode_durable_end(
            boot_id=boot_id or self._disk.boot_id(),
            writer_epoch=1,
            segment_id=self._durable_end.segment_index,
            offset=self._durable_end.segment_offset,
            coordinator_watermark=0,
        )

    def write_durable_end_bytes(self, data: bytes) -> None:
        path = self.paths.durable_end
        exists = self._disk.exists(path)
        with self._disk.open(path, writable=True) if exists else self._disk.create(path) as file:
            file.pwrite(0, data)

    def remove_oldest(self) -> None:
        segment = self.built.pop(0)
        segment.file.close()
        self._disk.unlink(segment.path)

    def close(self) -> None:
        """The log, for its readers and for good."""
        self._is_closed = True
        for segment in self.built:
            segment.file.close()
        self._tell()

    def kept(self) -> list[Record]:
        """The records that are there and durable."""
        records = [record for segment in self.built for record in segment.records]
        return [record for record in records if record.record_id < self._durable_end]

    def footer(self, segment: FakeSegment) -> bytes:
        records = segment.records
        data = segment.file.pread(RECORDS_START, segment.end - RECORDS_START)
        return encode_footer(
            SegmentFooter(
                magic=FOOTER_MAGIC,
                version=FOOTER_VERSION,
                reserved=0,
                segment_index=segment.name.segment_id,
                checksum=0,
                base_record_count=0,
                record_count=len(records),
                durable_bytes=segment.end,
                last_record_id=records[-1].record_id if records else 0,
                last_timestamp=max((record.timestamp for record in records), default=0),
                sealed_at=CREATED_AT,
                payload_checksum=crc64nvme(data),
                ext_id=0,
                coordinator_watermark=0,
                flush_failure=0,
            )
        )

    def _header(self, segment: FakeSegment, timestamp: int, ext_id: int) -> bytes:
        return SEGMENT_HEADER.pack(
            SegmentHeader(
                magic=SEGMENT_MAGIC,
                version=SEGMENT_VERSION,
                header_length=SEGMENT_HEADER.size,
                segment_index=segment.name.segment_id,
                base_record_count=0,
                base_offset=segment.name.base_offset,
                max_size=segment.size,
                created_at=segment.name.created_at,
                base_timestamp=timestamp,
                ext_id=ext_id,
            )
        )

    def _tell(self) -> None:
        moved, self._moved = self._moved, self._runner.event()
        moved.set()
        for callback in list(self._callbacks.values()):
            callback()


class OvertakenLog(FakeLog):
    """Publishes a record right behind the back of whoever looked and saw none; once."""

    overtakes = True

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        is_beyond = super().wait_beyond(position, timeout)
        if not is_beyond and self.overtakes:
            self.overtakes = False
            self.append(b"published in between")
            self.publish()
        return is_beyond
