"""One partition of a topic that is only read: what its files tell, and a reader of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakebed.base.files import Disk
from lakebed.base.runner import Runner
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.follower import Follower
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.paths import PartitionPaths
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.reader import Fetched, PartitionReader
from lakebed.keratin.view import SegmentInfo


class TopicPartition:
    """Thread-safe. It sees what is durable; beside a writer that grows."""

    def __init__(self, paths: PartitionPaths, *, disk: Disk, runner: Runner) -> None:
        """`NotFound` if there is no such partition."""
        self.paths = paths
        self.number = paths.number
        self.view = ReadOnlyPartition(paths, disk=disk, runner=runner)
        self._reader = PartitionReader(self.view)

    @property
    def name(self) -> str:
        return self.paths.name

    @property
    def disk(self) -> Disk:
        return self.view.disk

    def segments(self) -> Sequence[SegmentInfo]:
        return self.view.segments()

    def start_offset(self) -> int:
        """The first message that may be read."""
        return self.view.start_offset()

    def high_watermark(self) -> int:
        """Behind the last durable message."""
        return self.view.high_watermark()

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Until there are messages behind `offset`; False if the seconds passed first."""
        return self.view.wait_beyond(offset, timeout)

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """The messages from that offset on, one by one."""
        return self._reader.scan_from(offset, max_bytes=max_bytes, max_messages=max_messages)

    def read_batches(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[MessageBatch]:
        """The messages of `[start, end)` as columns; all there are by default."""
        return self._reader.read_batches(
            start,
            end,
            batch_bytes_max=batch_bytes_max,
            skip_damage=skip_damage,
            on_skipped=on_skipped,
        )

    def read(
        self, start: int | None = None, end: int | None = None, *, skip_damage: bool = False
    ) -> Iterator[Message]:
        """The messages of `[start, end)`, one by one."""
        return self._reader.read(start, end, skip_damage=skip_damage)

    def get(self, offset: int) -> Message:
        return self._reader.get(offset)

    def fetch(self, offset: int, *, max_bytes: int) -> Fetched:
        """Raw records from that offset on, as they stand in the log."""
        return self._reader.fetch(offset, max_bytes)

    def offset_for_time(self, timestamp_ms: int) -> int:
        """The first message at or behind that moment; the high watermark if there is none."""
        return self._reader.offset_for_time(timestamp_ms)

    def follow(self, start: int | None = None) -> Follower:
        """The messages from there on, waiting for more when there are none."""
        return Follower(self.view, start)

    def close(self) -> None:
        """Close its files and wake whoever waits. Idempotent."""
        self._reader.close()
        self.view.close()
