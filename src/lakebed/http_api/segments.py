"""Serves segments as stored bytes to remote readers.

A reader lists the segments, pins those that it will read, then fetches ranges and decodes them as
the engines do. Headers, footers and the seek table of a compressed segment are sent like other
bytes.

Invariants:

- No byte after the durable end is sent.
- The bytes of one response come from one file: the file is kept open. After opening a topic's file,
  the handler checks that compaction has not replaced it. If an object is replaced while it is being
  sent, the response is cut short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from lakebed.aof.log import Aof
from lakebed.aof.span import records_end
from lakebed.aof.tiers.errors import Transient
from lakebed.aof.tiers.object_store import ObjectSource, ObjectStore
from lakebed.aof.view import SegmentInfo
from lakebed.api import logs, topics
from lakebed.api.operation import Operation
from lakebed.base.errors import Busy, Corrupt, NotFound
from lakebed.base.files import Disk, File
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.logs import find_log_to_read
from lakebed.http_api.lookup import readable_partition_of
from lakebed.http_api.record_pages import ReadLog
from lakebed.http_api.service import Service
from lakebed.http_api.stored_range import StoredRange, answer_range, stored_file
from lakebed.keratin.log_bytes import open_log
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition, scan_end
from lakebed.keratin.view import PartitionSegment

_TRIES: Final = 3  # to open a segment that moves to another tier meanwhile


async def log_segments(service: Service, call: Call) -> logs.LogSegments:
    log = await find_log_to_read(service, call)
    return await service.run(partial(_list, log))


def _list(log: ReadLog) -> logs.LogSegments:
    durable_end = log.durable_end()  # taken first, so that the segments listed include it
    segments = log.segments()
    states = log.tiers.states() if isinstance(log, Aof) else ()
    compressed = {state.segment_id: state.compressed_bytes for state in states}
    infos = []
    for index, info in enumerate(segments):
        size: int | None
        if info.tier:
            size = compressed.get(info.segment_id, info.size)
        elif info.is_sealed:
            size = _file_bytes(log.disk, info.path)
        else:
            size = records_end(segments, index, durable_end)
        infos.append(replace(info, size=size))
    return logs.LogSegments(infos, int(durable_end))


def _file_bytes(disk: Disk, path: str) -> int | None:
    try:
        with disk.open(path) as file:
            return file.size()
    except NotFound:
        return None  # it was moved meanwhile


async def log_segment_bytes(service: Service, call: Call) -> Response:
    log = await find_log_to_read(service, call)
    query: logs.RangeQuery = call.query
    segment_id = call.number("segment")
    opening = partial(_open_segment, log, segment_id, query.tier)
    return await answer_range(service, call, opening, query.offset, query.length)


def _open_segment(log: ReadLog, segment_id: int, tier: int | None) -> StoredRange:
    """Opens the segment in the tier where it is now.

    Raises `NotFound` if the segment does not exist or is not in `tier` (None means any tier),
    `Busy` if it moves between tiers at each attempt, and `Corrupt` if it does not move but its file
    or object is missing.
    """
    missing: list[SegmentInfo] = []
    for _ in range(_TRIES):
        info = _find(log, segment_id)
        if tier not in (None, info.tier):
            raise NotFound(
                f"{log.name}: segment {segment_id} is in Tier {info.tier} now, not in Tier {tier}"
            )
        try:
            return _open_object(log, info) if info.tier == 2 else _open_file(log, info)
        except NotFound:  # it moved: find it again
            missing.append(info)
            log.refresh()
    if len(set(missing)) > 1:
        raise Busy(f"{log.name}: segment {segment_id} is moving between tiers; retry later")
    what = "object" if missing[0].tier == 2 else "file"
    raise Corrupt(f"the {what} of segment {segment_id} is missing", path=missing[0].path)


def _find(log: ReadLog, segment_id: int) -> SegmentInfo:
    for info in log.segments():
        if info.segment_id == segment_id:
            return info
    raise NotFound(f"{log.name}: segment {segment_id} does not exist or has no durable records")


def _open_file(log: ReadLog, info: SegmentInfo) -> StoredRange:
    file = log.disk.open(info.path)
    try:
        # Taken after opening: the file may have grown or been sealed, which only adds bytes.
        size = file.size() if info.is_sealed else _durable_bytes(log, info.segment_id)
        return stored_file(file, size, _info_headers(info))
    except BaseException:
        file.close()
        raise


def _durable_bytes(log: ReadLog, segment_id: int) -> int:
    durable_end = log.durable_end()
    segments = log.segments()
    for index, info in enumerate(segments):
        if info.segment_id == segment_id:
            return records_end(segments, index, durable_end) or 0
    raise NotFound(f"{log.name}: segment {segment_id} was removed")


def _open_object(log: ReadLog, info: SegmentInfo) -> StoredRange:
    assert log.cold is not None, "a log with segments in Tier 2 has an object store"
    store = log.cold.store
    head = store.head(info.path)
    source = ObjectSource(store, info.path, size=head.size)
    check_end = partial(_check_same, store, info.path, head.etag)
    return StoredRange(source, head.size, _info_headers(info), check_end=check_end)


def _check_same(store: ObjectStore, key: str, etag: str) -> None:
    if store.head(key).etag != etag:
        raise Transient(f"{key}: the object was replaced while it was being read")


def _info_headers(info: SegmentInfo) -> list[tuple[str, str]]:
    sealed = "true" if info.is_sealed else "false"
    return [("Lakebed-Tier", str(info.tier)), ("Lakebed-Sealed", sealed)]


async def topic_segments(service: Service, call: Call) -> topics.TopicSegments:
    partition = await readable_partition_of(service, call)
    high_watermark = partition.high_watermark()
    segments = list(partition.segments())
    return topics.TopicSegments(segments, partition.start_offset(), high_watermark)


async def topic_segment_bytes(service: Service, call: Call) -> Response:
    partition = await readable_partition_of(service, call)
    query: topics.SegmentBytesQuery = call.query
    base_offset = call.number("base_offset")
    opening = partial(_open_log_file, partition, base_offset, query.generation)
    return await answer_range(service, call, opening, query.offset, query.length)


def _open_log_file(
    partition: Partition | ReadOnlyPartition, base_offset: int, generation: int | None
) -> StoredRange:
    """Opens the log file of a segment, and checks that it is the file that the partition describes.

    Compaction replaces a sealed file before the partition's description changes; until then the new
    file is smaller than described. Raises `NotFound` if there is no such segment, or it has another
    `generation`; `Busy` if compaction is replacing the file at each attempt; and `Corrupt` if the
    file is missing or cut short.
    """
    for _ in range(_TRIES):
        before = _find_log_file(partition, base_offset)
        file = _open_described(partition, before)
        try:
            info = _find_log_file(partition, base_offset)  # as described after the file was opened
            if generation not in (None, info.generation):
                raise NotFound(
                    f"{partition.name}: segment {base_offset} was compacted: its generation is "
                    f"{info.generation} now, not {generation}"
                )
            size = file.size()
            is_longer = info == before and size > info.end  # by bytes that belong to no record
            if not info.is_sealed or size == info.end or is_longer:
                return stored_file(file, info.end, _generation_headers(info))
            if info == before:
                _check_replaced(partition, info)
        except BaseException:
            file.close()
            raise
        file.close()
    raise Busy(
        f"{partition.name}: compaction is replacing the file of segment {base_offset}; retry later"
    )


def _open_described(partition: Partition | ReadOnlyPartition, info: PartitionSegment) -> File:
    """Opens the file of a segment.

    Raises `NotFound` if the segment was removed, and `Corrupt` if only its file is missing.
    """
    try:
        return partition.disk.open(info.path)
    except NotFound:
        _find_log_file(partition, info.base_offset)  # a file is removed after its description
        raise Corrupt("the file of the segment is missing", path=info.path) from None


def _check_replaced(partition: Partition | ReadOnlyPartition, info: PartitionSegment) -> None:
    """Checks the file of a sealed segment that is smaller than described.

    Raises `Corrupt` unless it has good records up to the segment's last offset, as a file that
    compaction has written.
    """
    log = open_log(partition.disk, info.path, base_offset=info.base_offset, is_sealed=True)
    try:
        end, next_offset, _ = scan_end(log, log.records_start, info.base_offset)
        size = log.size
    finally:
        log.close()
    if (end, next_offset) != (size, info.next_offset):
        raise Corrupt(
            "the segment is cut short",
            path=info.path,
            offset=end,
            expected=f"{info.end} bytes",
            found=size,
        )


def _find_log_file(partition: Partition | ReadOnlyPartition, base_offset: int) -> PartitionSegment:
    for info in partition.segments():
        if info.base_offset == base_offset:
            return info
    raise NotFound(f"{partition.name}: no segment begins at offset {base_offset}")


def _generation_headers(info: PartitionSegment) -> list[tuple[str, str]]:
    sealed = "true" if info.is_sealed else "false"
    return [("Lakebed-Generation", str(info.generation)), ("Lakebed-Sealed", sealed)]


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.LOG_SEGMENTS: log_segments,
    logs.LOG_SEGMENT_BYTES: log_segment_bytes,
    topics.TOPIC_SEGMENTS: topic_segments,
    topics.TOPIC_SEGMENT_BYTES: topic_segment_bytes,
}
