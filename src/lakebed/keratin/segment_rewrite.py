"""A sealed segment in fewer bytes: some of its records, in a file that takes the old one's place.

The new log is complete and durable before it replaces the old one by a rename; its indexes follow.
Whatever the moment of a crash, the log is the old one or the new one. Indexes of the other one may
stand beside it: they are derived, and made again when the partition is opened.

Records keep their offsets. The segment's last offset is always there: where its message is left
out, an empty control record holds its place, so that the log alone tells where the next begins.
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
from lakebed.keratin.headers import encode_headers
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
"""Records of a run that stay as they are, by their indexes; or messages, as plain records."""

Choose = Callable[[Run], Iterable[Kept]]
"""What of a run stays, in order. Asked twice: it must not change its mind."""

_WINDOW_BYTES = 1 * MIB
_CAPACITY_BYTES = (1 << 31) - 1


class RewrittenSegment(NamedTuple):
    """What the new file is, for the partition's list and its manifest."""

    info: PartitionSegment  # of the next generation
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
    """Replace the segment's files; None, and nothing was changed, if that makes it no smaller.

    `Corrupt` if the log is damaged: it has to be repaired first.
    """
    assert info.is_sealed, "only sealed segments are rewritten"
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        log.header()
        if all(_is_all(run, choose(run)) for run in whole_runs(log, info)):
            return None
        writing = _SegmentRewrite(
            disk, paths, info, index_stride_bytes, created_ms=log.header().created_ms
        )
        pieces = (piece for run in whole_runs(log, info) for piece in _pieces(run, choose(run)))
        return writing.replace(pieces, bytes_max=info.end - 1)
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
    """Replace the segment's files by those parts of its log alone."""
    log = open_log(disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        writing = _SegmentRewrite(disk, paths, info, index_stride_bytes, created_ms=created_ms)
        pieces = (run for one in ranges for run in _range_runs(log, one))
        rewritten = writing.replace(pieces, bytes_max=None)
        assert rewritten is not None, "there is no limit to what a repair may take"
        return rewritten
    finally:
        log.close()


def whole_runs(log: LogBytes, info: PartitionSegment) -> Iterator[Run]:
    """All the records of a sealed segment; `Corrupt` if it is damaged."""
    position, next_offset = log.records_start, info.base_offset
    while position < info.end:
        found = log.scan(position, info.end, bytes_max=_WINDOW_BYTES)
        if isinstance(found, Stop):
            raise Corrupt(PROBLEMS[found], path=info.path, offset=position)
        if found.in_order_count(next_offset, info.next_offset) < found.record_count:
            raise Corrupt(OUT_OF_ORDER, path=info.path, offset=position)
        yield found
        position, next_offset = found.end, found.next_offset


class _SegmentRewrite:
    """One new log, as it grows."""

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
        self._written = 0  # bytes of the file; those that wait come behind

    def replace(self, pieces: Iterable[Run], *, bytes_max: int | None) -> RewrittenSegment | None:
        """None, and the old file stays, if the new one would take more than that."""

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
                raise _TooLong(f"{info.path}: no smaller")
            if segment.end - self._written >= _WINDOW_BYTES:
                self._flush(file)
        if segment.next_offset < info.next_offset:
            self._add(_place_holder(info.next_offset - 1, segment.timestamp_ms_max))
        if bytes_max is not None and segment.end > bytes_max:
            raise _TooLong(f"{info.path}: no smaller")
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
    """The new log would not be smaller: its file is given up."""


def _is_all(run: Run, kept: Iterable[Kept]) -> bool:
    """Whether everything stays as it is."""
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
        found = log.scan(position, good.end, bytes_max=_WINDOW_BYTES)
        if isinstance(found, Stop):
            raise Corrupt("the log changed meanwhile", path=log.path, offset=position)
        yield found
        position = found.end


def _plain(messages: Sequence[Message]) -> Run:
    """The messages as plain records. One from before 1970 is stamped with the first moment."""
    return _encoded(
        [message.value or b"" for message in messages],
        [encode_headers(message.key, None, message.headers) for message in messages],
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
