"""A partition that is only read, from its files. Writes nothing: no repair, no lock.

    partition = ReadOnlyPartition(paths, disk=disk, runner=runner)
    for message in partition.scan_from(0): ...

How far it may be read is what the writer published in `durable_end`, if the machine was not
started anew since: exactly that far, for messages behind it may vanish and their offsets be given
out again. After a restart of the machine, or without such a file, the partition ends before its
first bad record, and not before what the file says. A writer publishes when it opens the partition,
before it appends; so bytes that are not durable are never taken for messages.

Which segments there are is told by the manifest; those that it does not know (yet, or because it
is damaged) are found in the folder and read up to their first bad record.

Nobody wakes a reader in another process: waiting is looking at `durable_end` again.
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
    """The segments, as far as they may be read."""

    segments: Sequence[PartitionSegment]
    start_offset: int
    high_watermark: int


class ReadOnlyPartition:
    """Thread-safe. A `PartitionView` of itself: it sees what is durable, which grows while a writer
    appends."""

    def __init__(self, paths: PartitionPaths, *, disk: Disk, runner: Runner) -> None:
        """`NotFound` if there is no such partition."""
        if not disk.is_folder(paths.segments):
            raise NotFound(f"{paths.segments}: there is no such partition")
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
        self._listed: tuple[object, Listing] | None = None  # by what it follows from; _mutex
        self._poll = Poll(
            f"look at the end of {paths.name}", runner=runner, look=self.high_watermark
        )
        self._reader = PartitionReader(self)

    # What it is.

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
        """The first message that may be read."""
        return self._listing().start_offset

    def high_watermark(self) -> int:
        """The offset after the last durable message."""
        published = self._load_published()
        if published is not None and published.boot_id == self._boot_id:
            return published.next_offset
        return self._listing().high_watermark

    def wait_beyond(self, offset: int, timeout: float | None) -> bool:
        """See `PartitionView`; it polls."""
        return poll_until(self._runner, lambda: self.high_watermark() > offset, timeout)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """See `PartitionView`; a task of the runner polls while anybody is subscribed."""
        self._check_open()
        return self._poll.subscribe(callback)

    # Reading.

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

    def follow(self, start: int | None = None) -> Follower:
        """The messages from there on, waiting for more when there are none."""
        return Follower(self, start)

    def fetch(self, offset: int, *, max_bytes: int) -> FetchedRecords:
        """Raw records from that offset on, as they stand in the log."""
        return self._reader.fetch(offset, max_bytes)

    def get(self, offset: int) -> Message:
        return self._reader.get(offset)

    def offset_for_time(self, timestamp_ms: int) -> int:
        """The first message at or after that moment; the high watermark if there is none."""
        return self._reader.offset_for_time(timestamp_ms)

    def close(self) -> None:
        """Close its files and wake every waiting reader. Idempotent."""
        self._is_closed = True
        self._reader.close()
        self._poll.close()
        self._poll.notify()

    def __enter__(self) -> ReadOnlyPartition:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load_published(self) -> DurableEnd | None:
        """What the writer published; None if nothing that can be read."""
        self._check_open()
        path = self.paths.durable_end

        def read() -> DurableEnd:
            return decode_durable_end(
                read_file(self._disk, path, size_max=DURABLE_END.size), path=path
            )

        try:
            # Damaged for good: what it said last is still true, if it was read before.
            self._published = read_overwritten(self._runner, read) or self._published
        except NotFound:
            return None
        return self._published

    def _load_manifest(self) -> tuple[bytes, PartitionManifest | None]:
        """Its bytes and what they say; None if it is missing or damaged."""
        path = self.paths.manifest
        try:
            data = read_file(self._disk, path, size_max=MANIFEST_BYTES_MAX)
            with self._mutex:
                known = self._manifest
            if data != known[0]:
                known = (data, decode_manifest(data, path=path))
        except UnknownVersion:
            raise
        except (NotFound, DataError):
            known = (b"", None)
        with self._mutex:
            self._manifest = known
        return known

    def _listing(self) -> Listing:
        # The end first: the manifest that is read after it knows of its segment, or a later one.
        published = self._load_published()
        data, manifest = self._load_manifest()
        is_current = published is not None and published.boot_id == self._boot_id
        bases = []
        if not is_current or manifest is None or _has_rolled(manifest, published):
            bases = self.paths.bases(self._disk)
        cause = (published, data, bases)
        with self._mutex:
            if self._listed is not None and self._listed[0] == cause:
                return self._listed[1]
        listing = self._list(manifest, published, bases, is_current=is_current)
        with self._mutex:
            self._listed = (cause, listing)
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
        segments = [self._sealed(one) for one in listed]
        unlisted = _unlisted(manifest, published, bases, is_current=is_current)
        for index, base in enumerate(unlisted):
            is_last = index + 1 == len(unlisted)
            if is_current and published is not None and base >= published.base_offset:
                is_here = base == published.base_offset
                end = published.position if is_here else RECORDS_START
                segments.append(self._unsealed(base, max(base, published.next_offset), end))
                continue
            end, next_offset, stop = self._scan(base, published)
            if not is_last and (stop is Stop.END or is_current):
                # Whatever it lost, the offsets up to the next one were its own.
                segments.append(self._unsealed(base, unlisted[index + 1], end))
                continue
            segments.append(self._unsealed(base, next_offset, end))
            break
        high_watermark = segments[-1].next_offset if segments else 0
        if is_current and published is not None:
            high_watermark = published.next_offset
        start_offset = segments[0].base_offset if segments else high_watermark
        if manifest is not None:  # what is missing before the first segment is lost
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
        """Behind the last record before a bad one, its next offset, and why it is the last."""
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
    """From a record's start: behind the last good one, the next offset, and what stops it."""
    size = log.size
    while position < size:
        found = log.scan(position, size, bytes_max=_WINDOW_BYTES)
        if isinstance(found, Stop):
            return position, next_offset, found
        good = found.in_order_count(next_offset, 1 << 63)
        if not good:
            return position, next_offset, Stop.BAD_HEADER
        run = found.part(0, good)
        position, next_offset = run.end, run.next_offset
    return position, next_offset, Stop.END


def _has_rolled(manifest: PartitionManifest, published: DurableEnd | None) -> bool:
    """Whether segments were begun that the manifest does not know of."""
    return published is not None and published.base_offset > manifest.active_base_offset


def _unlisted(
    manifest: PartitionManifest | None,
    published: DurableEnd | None,
    bases: Sequence[int],
    *,
    is_current: bool,
) -> list[int]:
    """The segments behind those that the manifest lists as sealed, in order."""
    found = set(bases)
    least = 0
    if manifest is not None:
        found.add(manifest.active_base_offset)
        least = manifest.segments[-1].last_offset + 1 if manifest.segments else 0
    if is_current and published is not None:
        limit = published.base_offset
        if manifest is not None:
            limit = max(limit, manifest.active_base_offset)
        found = {base for base in found if base <= limit} | {published.base_offset}
    return sorted(base for base in found if base >= least)
