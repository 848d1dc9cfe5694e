"""Rewrites a sealed segment with only some of its records, and replaces the old file.

The new log is complete and durable before it replaces the old one by a rename; new indexes are
written after that. After a crash at any point, the log is either the old or the new one. If its
indexes do not match it then, they are rebuilt when the partition is opened.

Records keep their offsets. If the last message of the segment is left out, an empty control record
takes its offset, so that the log alone shows at which offset the next segment begins.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lakebed.base.errors import Corrupt, LakebedError
from lakebed.base.files import Disk, File, build_atomically
from lakebed.base.layout import Buffer
from lakebed.base.units import MIB
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import STORED_HEADERS_COUNT_MAX, encode_headers
from lakebed.keratin.log_bytes import OUT_OF_ORDER, PROBLEMS, LogBytes, open_log
from lakebed.keratin.log_file import encode_log_header
from lakebed.keratin.log_inspection import GoodRange
from lakebed.keratin.message import Message
from lakebed.keratin.paths import PartitionPaths, SegmentFile
from lakebed.keratin.run import Run, run_of
from lakebed.keratin.segment import ActiveSegment
from lakebed.keratin.segment_files import rebuild_indexes
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import Stop, keratin_encode, keratin_scan

Kept = range | Sequence[Message]
"""Index range of a run's records to keep unchanged, or messages to write as plain records."""

Choose = Callable[[Run], Iterable[Kept]]
"""Returns the parts of a run to keep, in order. A second call for a run must return the same."""

_WINDOW_BYTES = 1 * MIB
_CAPACITY_BYTES = (1 << 31) - 1


class RewrittenSegment(NamedTuple):
    """Describes the rewritten segment, for the partition's segment list and its manifest."""

    info: PartitionSegment  # with the new end and the next generation number
    index_bytes: int
    timestamp_ms_max: int
    removed_bytes: int

    @property
    def last_offset(self) -> int:
        return self.info.next_offset - 1


def rewrite_segment(
    disk: Disk,
    paths: PartitionPaths,
    info: PartitionSegment,
    choose: Choose,
    *,
    index_stride_bytes: int,
) -> RewrittenSegment | None:
    """Replaces the segment's files with files that hold only the records that `choose` keeps.

    Returns None, and changes nothing, if the segment would not become smaller. Raises `Torn` or
    `Corrupt` if the log is damaged; it must be repaired first.
    """
    assert info.is_sealed, "only sealed segments are rewritten"
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        log.header()
        if all(_is_all(run, choose(run)) for run in whole_runs(log, info)):
            return None
        rewrite = _SegmentRewrite(
            disk, paths, info, index_stride_bytes, created_ms=log.header().created_ms
        )
        pieces = (piece for run in whole_runs(log, info) for piece in _pieces(run, choose(run)))
        return rewrite.replace(pieces, bytes_max=info.end - 1)
    finally:
        log.close()


def rewrite_ranges(
    disk: Disk,
    paths: PartitionPaths,
    info: PartitionSegment,
    ranges: Sequence[GoodRange],
    *,
    index_stride_bytes: int,
    created_ms: int,
) -> RewrittenSegment:
    """Replaces the segment's files with files that hold only the given ranges of its log."""
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        rewrite = _SegmentRewrite(disk, paths, info, index_stride_bytes, created_ms=created_ms)
        pieces = (run for good_range in ranges for run in _range_runs(log, good_range))
        rewritten = rewrite.replace(pieces, bytes_max=None)
        assert rewritten is not None, "a rewrite without a size limit must succeed"
        return rewritten
    finally:
        log.close()


def whole_runs(log: LogBytes, info: PartitionSegment) -> Iterator[Run]:
    """Yields all records of a sealed segment; raises `Corrupt` if the log is damaged."""
    position, next_offset = log.records_start, info.base_offset
    while position < info.end:
        scanned = log.scan(position, info.end, bytes_max=_WINDOW_BYTES)
        if isinstance(scanned, Stop):
            raise Corrupt(PROBLEMS[scanned], path=info.path, offset=position)
        if scanned.in_order_count(next_offset, info.next_offset) < scanned.record_count:
            raise Corrupt(OUT_OF_ORDER, path=info.path, offset=position)
        yield scanned
        position, next_offset = scanned.end, scanned.next_offset


class _SegmentRewrite:
    """Writes one new log and replaces the old one with it."""

    def __init__(
        self,
        disk: Disk,
        paths: PartitionPaths,
        info: PartitionSegment,
        index_stride_bytes: int,
        *,
        created_ms: int,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._info = info
        self._segment = ActiveSegment(
            base_offset=info.base_offset,
            created_ms=created_ms,
            index_stride_bytes=index_stride_bytes,
            next_offset=info.base_offset,
        )
        self._waiting: list[Buffer] = []
        self._written = 0  # bytes written to the file; the waiting buffers follow

    def replace(self, pieces: Iterable[Run], *, bytes_max: int | None) -> RewrittenSegment | None:
        """Writes the new log and replaces the old one with it.

        Returns None, and keeps the old log, if the new one would be larger than `bytes_max`.
        """

        def build(file: File) -> None:
            self._build(file, pieces, bytes_max)

        path = self._paths.segment(self._info.base_offset, SegmentFile.LOG)
        try:
            build_atomically(self._disk, path, build)
        except _TooLong:
            return None
        index_bytes = rebuild_indexes(self._disk, self._paths, self._segment, is_sealed=True)
        segment = self._segment
        return RewrittenSegment(
            replace(self._info, end=segment.end, generation=self._info.generation + 1),
            index_bytes,
            segment.timestamp_ms_max,
            self._info.end - segment.end,
        )

    def _build(self, file: File, pieces: Iterable[Run], bytes_max: int | None) -> None:
        segment, info = self._segment, self._info
        header = encode_log_header(base_offset=info.base_offset, created_ms=segment.created_ms)
        self._waiting.append(header)
        for run in pieces:
            self._add(run)
            if bytes_max is not None and segment.end > bytes_max:
                raise _TooLong(f"{info.path}: the rewritten log would not be smaller")
            if segment.end - self._written >= _WINDOW_BYTES:
                self._flush(file)
        if segment.next_offset < info.next_offset:
            self._add(_place_holder(info.next_offset - 1, segment.timestamp_ms_max))
        if bytes_max is not None and segment.end > bytes_max:
            raise _TooLong(f"{info.path}: the rewritten log would not be smaller")
        self._flush(file)
        file.sync()

    def _add(self, run: Run) -> None:
        first = int(run.positions[0])
        data = run.raw()
        self._segment.add(
            positions=[position - first for position in run.positions],
            offsets=run.offsets,
            timestamps_ms=run.timestamps_ms,
            size=len(data),
            next_offset=run.next_offset,
        )
        self._waiting.append(data)

    def _flush(self, file: File) -> None:
        data = b"".join(self._waiting)
        file.pwrite(self._written, data)
        self._written += len(data)
        self._waiting.clear()


class _TooLong(LakebedError):
    """Stops a rewrite because the new log would not be smaller. Never reaches a caller."""


def _is_all(run: Run, kept: Iterable[Kept]) -> bool:
    """Returns whether every record of the run is kept unchanged."""
    following = 0
    for piece in kept:
        if not isinstance(piece, range) or piece.start != following:
            return False
        following = piece.stop
    return following == run.record_count


def _pieces(run: Run, kept: Iterable[Kept]) -> Iterator[Run]:
    for piece in kept:
        if isinstance(piece, range):
            if piece:
                yield run.part(piece.start, piece.stop)
        elif piece:
            yield _plain(piece)


def _range_runs(log: LogBytes, good: GoodRange) -> Iterator[Run]:
    position = good.start
    while position < good.end:
        scanned = log.scan(position, good.end, bytes_max=_WINDOW_BYTES)
        if isinstance(scanned, Stop):
            raise Corrupt(
                "a record that was whole a moment ago is not whole now; repeat the repair",
                path=log.path,
                offset=position,
            )
        yield scanned
        position = scanned.end


def _plain(messages: Sequence[Message]) -> Run:
    """Encodes messages as plain records without a producer. A timestamp before 1970 becomes 0."""
    return _encoded(
        [message.value or b"" for message in messages],
        [
            encode_headers(message.key, None, message.headers, count_max=STORED_HEADERS_COUNT_MAX)
            for message in messages
        ],
        offsets=[message.offset for message in messages],
        timestamps_ms=[max(message.timestamp_ms, 0) for message in messages],
        flags=[message.flags for message in messages],
    )


def _place_holder(offset: int, timestamp_ms: int) -> Run:
    flags = [int(RecordFlags.CONTROL)]
    return _encoded([b""], [b""], offsets=[offset], timestamps_ms=[timestamp_ms], flags=flags)


def _encoded(
    payloads: Sequence[bytes],
    headers: Sequence[bytes],
    *,
    offsets: Sequence[int],
    timestamps_ms: Sequence[int],
    flags: Sequence[int],
) -> Run:
    data = keratin_encode(
        payloads,
        headers,
        offsets=array("Q", offsets),
        timestamps_ms=array("Q", timestamps_ms),
        flags=array("H", flags),
        capacity=_CAPACITY_BYTES,
    ).data
    scan = keratin_scan(data, 0, len(data), count_max=len(payloads))
    return run_of(scan, memoryview(data), 0)
