"""Fetches a segment of a remote store as it is stored, and checks it like a local file.

A segment of a log in Tier 0 is held in memory as a whole; a compressed segment and a segment of a
topic are read in parts. A segment that was moved to another tier or compacted after it was listed
is looked up again.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.aof.format import SEGMENT_HEADER, SEGMENT_MAGIC
from lakebed.aof.paths import SegmentName
from lakebed.aof.view import SegmentInfo
from lakebed.base.damage import Verdict
from lakebed.base.errors import Corrupt, DataError, NotFound
from lakebed.base.files.windows import Window
from lakebed.base.units import MIB
from lakebed.client.log import RemoteLog
from lakebed.client.partition import RemotePartition
from lakebed.client.segment_range import SegmentRange
from lakebed.keratin.format import ManifestSegment
from lakebed.keratin.log_bytes import LogBytes
from lakebed.keratin.partition_verification import SegmentPiece as PartitionPiece
from lakebed.keratin.partition_verification import SegmentVerification, inspect_piece
from lakebed.keratin.view import PartitionSegment
from lakebed.store.copy_content import read_copy
from lakebed.store.log_check import LogFinding
from lakebed.store.segment_continuity import outline_of
from lakebed.store.topic_report import TopicFinding, finding_of
from lakebed.store.verification import Problem, SegmentPiece, judge_content

FETCH_BYTES = 8 * MIB
_TRIES = 3  # to catch a segment that is being moved


class LogSegment(NamedTuple):
    log: str
    info: SegmentInfo
    size: int


class TopicSegment(NamedTuple):
    topic: str
    partition: int
    info: PartitionSegment

    @property
    def path(self) -> str:
        """The path of the segment's file, relative to the root of the store."""
        return f"topics/{self.topic}/{self.partition}/segments/{self.info.base_offset:020}.log"


# Logs.


def check_log_segment(log: RemoteLog, piece: LogSegment) -> LogFinding | None:
    info: SegmentInfo | None = piece.info
    for _ in range(_TRIES):
        if info is None:
            return None  # removed in the meantime
        try:
            return _check_copy(log, info) if info.tier else _check_file(log, info)
        except NotFound:  # it was moved: look it up again
            info = next(
                (
                    segment
                    for segment in log.segments()
                    if segment.segment_id == piece.info.segment_id
                ),
                None,
            )
    raise NotFound(
        f"{piece.info.path}: {_TRIES} times, the segment was not in the tier that the node listed; "
        "it may have moved between tiers: run the job again"
    )


def _check_file(log: RemoteLog, info: SegmentInfo) -> LogFinding:
    data = bytearray()
    size = 1
    while len(data) < size:
        fetched = log.segment_bytes(info.segment_id, offset=len(data), length=FETCH_BYTES, tier=0)
        size = fetched.size
        data += fetched.data
        if not fetched.data.nbytes:
            break
    confirmed = None
    if not info.is_sealed:
        confirmed = len(data)
        data += bytes(max(0, _full_bytes(data) - len(data)))
    name = SegmentName(info.segment_id, info.base_offset, info.created_at)
    piece = SegmentPiece(name, info.path, confirmed, info.is_sealed, is_cut=not info.is_sealed)
    report = judge_content(data, piece, confirmed=confirmed)
    records = None
    if report.inspection is not None:
        records = sum(good.record_count for good in report.inspection.good_ranges)
    return LogFinding(info.segment_id, 0, records, report.problems, outline=outline_of(report))


def _full_bytes(data: bytearray) -> int:
    """Returns the full length of a segment's file, as its header states it.

    Returns 0 if the data does not start with a valid header.
    """
    if len(data) < SEGMENT_HEADER.size:
        return 0
    header = SEGMENT_HEADER.unpack(data)
    return header.max_size if header.magic == SEGMENT_MAGIC else 0


def _check_copy(log: RemoteLog, info: SegmentInfo) -> LogFinding:
    try:
        source = _SegmentSource(log, info)
        footer, crc = read_copy(source, segment_id=info.segment_id, base_offset=info.base_offset)
        if crc != footer.payload_checksum:
            raise Corrupt(
                "the payload's checksum differs from the one that the segment's footer records"
            )
    except DataError as error:
        problem = Problem(info.path, None, 0, Verdict.CORRUPT, str(error))
        return LogFinding(info.segment_id, info.tier, None, (problem,))
    return LogFinding(info.segment_id, info.tier, footer.record_count)


class _SegmentSource:
    """A `RangeSource` that fetches a compressed segment from the node."""

    def __init__(self, log: RemoteLog, info: SegmentInfo) -> None:
        self.name = info.path
        self._log = log
        self._info = info
        self.size = self._fetch(0, 1).size

    def read_range(self, offset: int, length: int) -> bytes:
        pieces = []
        while length > 0:
            data = self._fetch(offset, min(length, FETCH_BYTES)).data
            if not data.nbytes:
                raise Corrupt(
                    "the segment became shorter while it was read", path=self.name, offset=offset
                )
            pieces.append(data)
            offset, length = offset + data.nbytes, length - data.nbytes
        return b"".join(pieces)

    def close(self) -> None:
        """Does nothing, because there is nothing to close."""

    def _fetch(self, offset: int, length: int) -> SegmentRange:
        info = self._info
        return self._log.segment_bytes(
            info.segment_id, offset=offset, length=length, tier=info.tier
        )


# Topics.


def check_topic_segment(partition: RemotePartition, piece: TopicSegment) -> TopicFinding | None:
    info: PartitionSegment | None = piece.info
    for _ in range(_TRIES):
        if info is None:
            return None  # removed in the meantime
        try:
            return _check_records(partition, piece._replace(info=info))
        except NotFound:  # it was compacted: look it up again
            base = piece.info.base_offset
            info = next(
                (segment for segment in partition.segments() if segment.base_offset == base), None
            )
    raise NotFound(
        f"{piece.path}: the segment was replaced before it could be read, {_TRIES} times; probably "
        "compaction rewrites it: run the job again"
    )


def _check_records(partition: RemotePartition, piece: TopicSegment) -> TopicFinding:
    info = piece.info
    listed = None
    if info.is_sealed:
        listed = ManifestSegment(info.base_offset, info.next_offset - 1, info.end, 0)
    source = _RemoteBytes(partition, info)
    log = LogBytes(source, path=piece.path, base_offset=info.base_offset)
    inspection = inspect_piece(log, PartitionPiece(info.base_offset, listed, None, is_live=False))
    verification = SegmentVerification(
        base_offset=info.base_offset,
        path=piece.path,
        is_sealed=info.is_sealed,
        inspection=inspection,
        index_problems=(),
    )
    return finding_of(piece.partition, verification)


class _RemoteBytes:
    """A `ByteSource` that fetches a topic's segment from the node, several MiB at a time."""

    def __init__(self, partition: RemotePartition, info: PartitionSegment) -> None:
        self.size = info.end
        self._partition = partition
        self._info = info
        self._held = Window(memoryview(b""), 0)

    def window(self, start: int, end: int) -> Window:
        end = min(end, self.size)
        held_end = self._held.offset + self._held.buffer.nbytes
        if not self._held.offset <= start <= end <= held_end:
            self._held = Window(self._fetched(start, max(end, start + FETCH_BYTES)), start)
        return self._held

    def close(self) -> None:
        self._held = Window(memoryview(b""), 0)

    def _fetched(self, start: int, end: int) -> memoryview:
        data = bytearray()
        end = min(end, self.size)
        while start + len(data) < end:
            length = min(FETCH_BYTES, end - start - len(data))
            fetched = self._partition.segment_bytes(
                self._info.base_offset,
                offset=start + len(data),
                length=length,
                generation=self._info.generation,
            )
            if not fetched.data.nbytes:
                break
            data += fetched.data
        return memoryview(data)
