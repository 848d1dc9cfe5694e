"""A read-only partition, read from its files. It takes no lock and repairs nothing.

    partition = ReadOnlyPartition(paths, disk=disk, runner=runner)
    for message in partition.scan_from(0): ...

The partition may be read up to the end that its writer published in `durable_end`, and no further:
later messages may vanish in a crash, and their offsets may be assigned again. If the machine was
restarted after the writer published the end, or if the file is missing or damaged, the partition
ends before its first bad record, but never before the published end. A writer publishes the end
when it opens the partition, before it appends, so bytes that are not durable are never taken for
messages.

The manifest lists the segments. Segments that it does not list (because they are newer, or because
the manifest is damaged) are found in the folder and read up to their first bad record.

A writer in another process cannot wake a reader, so waiting means polling `durable_end`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lakebed.base.damage_ledger import DamageRecord, LedgerCache
from lakebed.base.errors import Closed, DataError, NotFound, UnknownVersion
from lakebed.base.files import Disk, read_file
from lakebed.base.poll import Poll, poll_until, read_overwritten
from lakebed.base.runner import Runner
from lakebed.base.units import MIB
from lakebed.keratin.damage import OnSkipped
from lakebed.keratin.durable_end import decode_durable_end
from lakebed.keratin.follower import Follower
from lakebed.keratin.format import DURABLE_END, RECORDS_START, DurableEnd, ManifestSegment
from lakebed.keratin.log_bytes import LogBytes, open_log
from lakebed.keratin.manifest import MANIFEST_BYTES_MAX, PartitionManifest, decode_manifest
from lakebed.keratin.message import Message
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.reader import FetchedRecords, PartitionReader
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import Stop

_WINDOW_BYTES = 1 * MIB


class Listing(NamedTuple):
    """The segments that may be read, and the offsets at which they begin and end."""

    segments: Sequence[PartitionSegment]
    start_offset: int
    high_watermark: int


class ReadOnlyPartition:
    """A partition that is only read. Thread-safe. Implements `PartitionView`.

    It shows all durable messages, including those that a writer in another process adds later.
    """

    def __init__(self, paths: PartitionPaths, *, disk: Disk, runner: Runner) -> None:
        """Opens the partition; raises `NotFound` if its folder does not exist."""
        if not disk.is_folder(paths.segments):
            raise NotFound(
                f"{paths.segments}: the folder does not exist, so there is no partition to read"
            )
        self.paths = paths
        self.number = paths.number
        self._disk = disk
        self._runner = runner
        self._boot_id = disk.boot_id()
        self._damage = LedgerCache(disk, paths.root)
        self._mutex = runner.mutex()
        self._is_closed = False
        self._manifest: tuple[bytes, PartitionManifest | None] = (b"", None)  # guarded by _mutex
        self._published: DurableEnd | None = None
        # The last listing and the inputs it was made from; guarded by _mutex.
        self._listed: tuple[object, Listing] | None = None
        self._poll = Poll(
            f"look at the end of {paths.name}", runner=runner, look=self.high_watermark
        )
        self._reader = PartitionReader(self)

    # Properties.

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
        return self._listing().segments

    def lost_offsets(self) -> Sequence[DamageRecord]:
        return self._damage.lost_offsets(self.paths.topic, self.paths.number)

    def start_offset(self) -> int:
        """The first offset that may be read."""
        return self._listing().start_offset

    def high_watermark(self) -> int:
        """The offset after the last durable message."""
        published = self._load_published()
        if published is not None and published.boot_id == self._boot_id:
            return published.next_offset
        return self._listing().high_watermark

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """Waits, by polling, until the high watermark is greater than `offset`.

        Returns True then, or False after `timeout` seconds. Raises `Closed` if the partition is
        closed.
        """
        return poll_until(self._runner, lambda: self.high_watermark() > offset, timeout)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when the high watermark moves or the partition is closed.

        A task of the runner polls while there are subscribers. See `PartitionView`.
        """
        self._check_open()
        return self._poll.subscribe(callback)

    # Reading.

    def scan_from(
        self, offset: int, *, max_bytes: int | None = None, max_messages: int | None = None
    ) -> Iterator[Message]:
        """Yields the messages from `offset` on, up to `max_bytes` or `max_messages` if given.

        See `PartitionReader.scan_from`.
        """
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
        """Yields the messages of `[start, end)` in batches; by default all messages.

        See `PartitionReader.read_batches`.
        """
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
        """Yields the messages with offsets in `[start, end)`; by default all messages."""
        return self._reader.read(start, end, skip_damage=skip_damage)

    def follow(self, start: int | None = None) -> Follower:
        """Returns an iterator over the messages from `start` on, which waits for new messages.

        If `start` is None, it begins with the oldest message.
        """
        return Follower(self, start)

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Returns the records from `offset` on as raw bytes, as they are stored in the log.

        Returns at most `max_bytes`, but at least one record if there is one. See
        `PartitionReader.fetch`.
        """
        return self._reader.fetch(offset, max_bytes)

    def get(self, offset: int) -> Message:
        return self._reader.get(offset)

    def offset_for_time(self, timestamp_ms: int) -> int:
        """Returns the offset of the first message whose timestamp is at least `timestamp_ms`.

        Returns the high watermark if there is no such message.
        """
        return self._reader.offset_for_time(timestamp_ms)

    def close(self) -> None:
        """Closes the files. Readers that wait for messages then raise `Closed`. Idempotent."""
        self._is_closed = True
        self._reader.close()
        self._poll.close()
        self._poll.notify()

    def __enter__(self) -> ReadOnlyPartition:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load_published(self) -> DurableEnd | None:
        """Returns the end that the writer published.

        Returns None if the file is missing, or if it is damaged and no earlier end was read.
        """
        self._check_open()
        path = self.paths.durable_end

        def read() -> DurableEnd:
            return decode_durable_end(
                read_file(self._disk, path, size_max=DURABLE_END.size), path=path
            )

        try:
            # If the file stays damaged, the end that was read before is still valid.
            self._published = read_overwritten(self._runner, read) or self._published
        except NotFound:
            return None
        return self._published

    def _load_manifest(self) -> tuple[bytes, PartitionManifest | None]:
        """Returns the manifest as bytes and decoded.

        Returns no bytes and None if the manifest is missing or damaged.
        """
        path = self.paths.manifest
        try:
            data = read_file(self._disk, path, size_max=MANIFEST_BYTES_MAX)
            with self._mutex:
                manifest = self._manifest
            if data != manifest[0]:
                manifest = (data, decode_manifest(data, path=path))
        except UnknownVersion:
            raise
        except (NotFound, DataError):
            manifest = (b"", None)
        with self._mutex:
            self._manifest = manifest
        return manifest

    def _listing(self) -> Listing:
        # The published end is read first: the manifest read after it is at least as new.
        published = self._load_published()
        data, manifest = self._load_manifest()
        is_current = published is not None and published.boot_id == self._boot_id
        bases = []
        if not is_current or manifest is None or _has_rolled(manifest, published):
            bases = self.paths.bases(self._disk)
        inputs = (published, data, bases)
        with self._mutex:
            if self._listed is not None and self._listed[0] == inputs:
                return self._listed[1]
        listing = self._list(manifest, published, bases, is_current=is_current)
        with self._mutex:
            self._listed = (inputs, listing)
        return listing

    def _list(
        self,
        manifest: PartitionManifest | None,
        published: DurableEnd | None,
        bases: Sequence[int],
        *,
        is_current: bool,
    ) -> Listing:
        listed = () if manifest is None else manifest.segments
        segments = [self._sealed(entry) for entry in listed]
        unlisted = _unlisted(manifest, published, bases, is_current=is_current)
        for index, base in enumerate(unlisted):
            is_last = index + 1 == len(unlisted)
            if is_current and published is not None and base >= published.base_offset:
                is_published = base == published.base_offset
                end = published.position if is_published else RECORDS_START
                segments.append(self._unsealed(base, max(base, published.next_offset), end))
                continue
            end, next_offset, stop = self._scan(base, published)
            if not is_last and (stop is Stop.END or is_current):
                # All offsets up to the next segment belong to this one, even if some are lost.
                segments.append(self._unsealed(base, unlisted[index + 1], end))
                continue
            segments.append(self._unsealed(base, next_offset, end))
            break
        high_watermark = segments[-1].next_offset if segments else 0
        if is_current and published is not None:
            high_watermark = published.next_offset
        start_offset = segments[0].base_offset if segments else high_watermark
        if manifest is not None:  # messages missing before the first segment count as lost
            start_offset = manifest.start_offset
        return Listing(tuple(segments), min(start_offset, high_watermark), high_watermark)

    def _sealed(self, segment: ManifestSegment) -> PartitionSegment:
        path = self.paths.segment(segment.base_offset, SegmentFile.LOG)
        return PartitionSegment(
            segment.base_offset, segment.last_offset + 1, path, segment.log_bytes, is_sealed=True
        )

    def _unsealed(self, base: int, next_offset: int, end: int) -> PartitionSegment:
        path = self.paths.segment(base, SegmentFile.LOG)
        return PartitionSegment(base, next_offset, path, end, is_sealed=False)

    def _scan(self, base: int, published: DurableEnd | None) -> tuple[int, int, Stop]:
        """Scans a segment that the manifest does not list as sealed, up to its first bad record.

        Returns the end of the last good record, the offset after its last message, and why the scan
        stopped.
        """
        start, next_offset = RECORDS_START, base
        if published is not None and published.base_offset == base:
            start, next_offset = published.position, published.next_offset
        path = self.paths.segment(base, SegmentFile.LOG)
        try:
            log = open_log(self._disk, path, base_offset=base, is_sealed=False)
        except NotFound:
            return start, next_offset, Stop.END
        try:
            if start > RECORDS_START:
                return scan_end(log, start, next_offset)
            error = log.header_error()
            if isinstance(error, UnknownVersion):
                raise error
            if error is not None:
                return start, next_offset, Stop.BAD_HEADER
            return scan_end(log, log.records_start, next_offset)
        finally:
            log.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self.paths.name}: the partition is closed")


def scan_end(log: LogBytes, position: int, next_offset: int) -> tuple[int, int, Stop]:
    """Scans good records from `position`, which must be the start of a record or the log's end.

    Returns the end of the last good record, the offset after its last message, and why the scan
    stopped.
    """
    size = log.size
    while position < size:
        scanned = log.scan(position, size, bytes_max=_WINDOW_BYTES)
        if isinstance(scanned, Stop):
            return position, next_offset, scanned
        good_count = scanned.in_order_count(next_offset, 1 << 63)
        if not good_count:
            return position, next_offset, Stop.BAD_HEADER
        run = scanned.part(0, good_count)
        position, next_offset = run.end, run.next_offset
    return position, next_offset, Stop.END


def _has_rolled(manifest: PartitionManifest, published: DurableEnd | None) -> bool:
    """Returns whether the writer has begun a segment that the manifest does not mention."""
    return published is not None and published.base_offset > manifest.active_base_offset


def _unlisted(
    manifest: PartitionManifest | None,
    published: DurableEnd | None,
    bases: Sequence[int],
    *,
    is_current: bool,
) -> list[int]:
    """Returns the sorted base offsets of segments after those that the manifest lists as sealed.

    With `is_current`, leaves out segments after those that the manifest and the durable end name.
    """
    candidates = set(bases)
    least = 0
    if manifest is not None:
        candidates.add(manifest.active_base_offset)
        least = manifest.segments[-1].last_offset + 1 if manifest.segments else 0
    if is_current and published is not None:
        limit = published.base_offset
        if manifest is not None:
            limit = max(limit, manifest.active_base_offset)
        candidates = {base for base in candidates if base <= limit} | {published.base_offset}
    return sorted(base for base in candidates if base >= least)
