"""Reads a log from its files without writing anything: no repair, no lock.

    for record in ReadOnlyLog(root, "orders", disk=disk, runner=runner).read(): ...

The writer publishes the end of its durable records in the file `durable_end`, first when it opens
the log and then after each sync. Readers stop there, because later bytes may be lost, and their
offsets used again for other records. If the machine has restarted since the file was written, or
the file is missing or damaged, the log is scanned instead: it ends before the first bad record
after the published end. So records that are not durable are never returned, except that a scan may
find some if the file was lost or damaged while the machine kept running.

The writer cannot wake readers in other processes. A waiting reader polls `durable_end`, first after
1 ms and later every 50 ms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from lakebed.aof.damage import OnSkipped
from lakebed.aof.end_scan import scan_end
from lakebed.aof.follower import Follower
from lakebed.aof.format import RECORDS_START, DurableEnd
from lakebed.aof.holds import PositionedReader
from lakebed.aof.identity import load_identity
from lakebed.aof.listing import SegmentListing, list_segments
from lakebed.aof.paths import LogPaths
from lakebed.aof.pointer import FILE_BYTES_MAX, decode_durable_end, decode_pointer
from lakebed.aof.reader import LogReader
from lakebed.aof.record_batch import Record, RecordBatch
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.catalogue import ColdCatalogue
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.services import TierServices
from lakebed.aof.view import LogDescription, SegmentInfo
from lakebed.base.errors import Closed, Corrupt, LakebedError, NotFound
from lakebed.base.files import Disk, PathLike, read_file
from lakebed.base.poll import Poll, poll_until, read_overwritten
from lakebed.base.runner import Runner


class ReadOnlyLog:
    """A log opened for reading only. The constructor raises `NotFound` if there is no such log.

    Thread-safe, but an iterator that it returned may be used by only one thread. This class
    implements `LogView`.
    """

    def __init__(
        self,
        root: PathLike,
        name: str,
        *,
        disk: Disk,
        runner: Runner,
        services: TierServices | None = None,
    ) -> None:
        """`services` opens the stores of Tier 2; by default they are opened with the default
        settings."""
        self.name = name
        self._paths = LogPaths(root, name)
        self._disk = disk
        self._runner = runner
        self._boot_id = disk.boot_id()
        self._refreshing = runner.mutex()  # one thread at a time lists the segments
        self._mutex = runner.mutex()
        self._is_closed = False
        services = services or TierServices(os.fspath(root), disk=disk, runner=runner)
        self._catalogue = ColdCatalogue(disk, self._paths, services)
        self._listing = SegmentListing((), 0)  # replaced as a whole, like the two fields below
        self._published: DurableEnd | None = None
        self._scanned: tuple[DurableEnd | None, RecordId] | None = None
        self._poll = Poll(f"poll the end of {name}", runner=runner, look=self.durable_end)
        self.refresh()
        self._opened_id = self._known_id()
        self._reader = LogReader(self)

    @property
    def disk(self) -> Disk:
        return self._disk

    @property
    def runner(self) -> Runner:
        return self._runner

    @property
    def stream_id(self) -> int | None:
        """The log's permanent id from `log.json`, or None if the log has no such file.

        Raises `Corrupt` if the file is damaged, and `UnknownVersion` if a newer version wrote it.
        """
        try:
            return load_identity(self._disk, self._paths).stream_id
        except NotFound:
            return None

    def is_replaced(self) -> bool:
        """Returns whether the log was deleted, or deleted and recreated, since it was opened.

        Compares the stream id in `log.json` with that at the time of opening. So the result is also
        True if the file was readable then and is not now, or the reverse.
        """
        return self._known_id() != self._opened_id

    # Reading: see `LogReader`.

    def get(self, record_id: RecordId) -> Record:
        """Returns the record with that id.

        Raises `NotFound` if there is no such durable record, and `Corrupt` if it is damaged.
        """
        return self._reader.get(record_id)

    def read(self, start: RecordId | None = None, end: RecordId | None = None) -> Iterator[Record]:
        """Yields the durable records of `[start, end)`, oldest first.

        By default, yields all records from the oldest to the current durable end.
        """
        return self._reader.read(start, end)

    def read_batches(
        self,
        start: RecordId | None = None,
        end: RecordId | None = None,
        *,
        batch_bytes_max: int | None = None,
        skip_damage: bool = False,
        on_skipped: OnSkipped | None = None,
    ) -> Iterator[RecordBatch]:
        """Yields the durable records of `[start, end)` in columnar batches, oldest first.

        This is much faster than `read`, which yields the same records one by one. With
        `skip_damage`, damaged bytes are skipped and reported to `on_skipped` instead of raised.
        """
        return self._reader.read_batches(
            start,
            end,
            batch_bytes_max=batch_bytes_max,
            skip_damage=skip_damage,
            on_skipped=on_skipped,
        )

    def read_backward(self, start: RecordId | None = None) -> Iterator[Record]:
        """Yields the durable records before `start`, or all of them by default, newest first."""
        return self._reader.read_backward(start)

    def seek_timestamp(self, timestamp_ns: int) -> RecordId:
        """Returns the position of the first record with that timestamp or a later one.

        Returns the durable end if there is no such record.
        """
        return self._reader.seek_timestamp(timestamp_ns)

    def follow(self, start: RecordId | None = None) -> Follower:
        """Returns an iterator over the records from `start`, or from the oldest.

        The iterator waits for new records, until it is closed. Retention may remove records that it
        has not read yet; to prevent that, pin their segments.
        """
        return Follower(self, start)

    # The interface for readers: see `lakebed.aof.view.LogView`.

    @property
    def ignored_count(self) -> int:
        """The number of unexpected files in the segments folder, which readers ignore."""
        return self._listing.ignored_count

    @property
    def cold(self) -> ColdSegments | None:
        return self._catalogue.cold

    def hold(self, reader: PositionedReader) -> None:
        """Does nothing: retention runs in the writer's process and does not know this reader."""

    def on_used(self, info: SegmentInfo) -> None:
        """Does nothing: only reads in the writer's process affect tiering."""

    def describe(self) -> LogDescription:
        """Returns a summary of the log, with the watermark of the last sealed segment.

        The watermark is 0 if no segment was sealed, and `stream_id` is 0 if the log has no
        `log.json`.
        """
        segments, durable_end = self.segments_and_end()
        return LogDescription(
            name=self.name,
            stream_id=self.stream_id or 0,
            durable_end=int(durable_end),
            coordinator_watermark=self._sealed_watermark(),
            segments=len(segments),
        )

    def segments(self) -> Sequence[SegmentInfo]:
        return self._listing.segments

    def segments_and_end(self) -> tuple[Sequence[SegmentInfo], RecordId]:
        """Returns the segments, oldest first, and the durable end.

        The segments contain every record before the durable end, which may itself be in the next
        segment.
        """
        durable_end = (
            self.durable_end()
        )  # read first, so that the segments listed afterwards include it
        self.refresh()
        return self.segments(), durable_end

    def refresh(self) -> None:
        """Lists the log's segments again, including those that are only in colder tiers.

        If another thread is doing that now, waits for it, and then lists them again.
        """
        self._check_open()
        with self._refreshing:
            known = {info.path: info for info in self._listing.segments}
            listing = list_segments(self._disk, self._paths, known=known)
            segments = self._catalogue.completed(listing.segments)
            listing = listing._replace(segments=segments)
            with self._mutex:
                self._listing = listing
                self._scanned = None

    def durable_end(self) -> RecordId:
        self._check_open()
        published = self._load_published()
        if published is None or published.boot_id != self._boot_id:
            return self._scan(published)
        if self._newest_id() < published.segment_id:
            self.refresh()
            if self._newest_id() < published.segment_id and published.offset > RECORDS_START:
                raise Corrupt(
                    "the newest segment with durable records is missing",
                    path=self._paths.segments,
                    expected=f"segment {published.segment_id}",
                    found=f"segment {self._newest_id()} as the newest",
                )
        return _position(published)

    def wait_beyond(self, position: RecordId, timeout: float | None) -> bool:
        """Waits until the durable end is after `position`; returns False if the timeout passes.

        Polls, because the writer may be another process.
        """
        return poll_until(self._runner, lambda: self.durable_end() > position, timeout)

    def on_durable(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Registers `callback` to be called when the durable end has moved, and on `close`.

        A background task polls for changes, because the writer may be another process. While the
        durable end cannot be read, the task calls `callback` at each poll. The returned function
        unregisters the callback.
        """
        self._check_open()
        return self._poll.subscribe(callback)

    def close(self) -> None:
        """Closes the files and ends the waits of readers, which then raise `Closed`. Idempotent."""
        self._is_closed = True
        self._reader.close()
        self._poll.close()
        self._poll.notify()

    def __enter__(self) -> ReadOnlyLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _known_id(self) -> int | None:
        """Returns the stream id, or None if `log.json` is missing or unreadable."""
        try:
            return self.stream_id
        except LakebedError:
            return None

    def _sealed_watermark(self) -> int:
        path = self._paths.pointer
        try:
            data = read_file(self._disk, path, size_max=FILE_BYTES_MAX)
        except NotFound:
            return 0
        return decode_pointer(data, path=path).coordinator_watermark

    def _load_published(self) -> DurableEnd | None:
        """Returns the content of `durable_end`, or None if the file is missing.

        If the file is damaged, returns the content that was read last, or None if there is none.
        """
        path = self._paths.durable_end

        def read() -> DurableEnd:
            data = read_file(self._disk, path, size_max=FILE_BYTES_MAX)
            return decode_durable_end(data, path=path)

        try:
            # If the file stays damaged, the end that was read last is still valid.
            self._published = read_overwritten(self._runner, read) or self._published
        except NotFound:
            return None
        return self._published

    def _scan(self, published: DurableEnd | None) -> RecordId:
        """Returns the end of the log, found by scanning its last segments.

        The result is cached until the segments or the published end change.
        """
        with self._mutex:
            scanned, segments = self._scanned, self._listing.segments
        if scanned is not None and scanned[0] == published:
            return scanned[1]
        confirmed = None if published is None else _position(published)
        end = scan_end(self._disk, segments, confirmed=confirmed)
        with self._mutex:
            if self._listing.segments is segments:
                self._scanned = (published, end)
        return end

    def _newest_id(self) -> int:
        segments = self._listing.segments
        return segments[-1].segment_id if segments else -1

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed(f"{self._paths.name}: the log is closed")


def _position(published: DurableEnd) -> RecordId:
    return RecordId.from_parts(published.segment_id, published.offset)
