"""Segments as they are stored, for readers that cannot see the files.

They plan by the list, pin what they will read, then fetch ranges and decode them as the engines do:
a segment's header and footer, and the seek table of a compressed one, are bytes like the others.

Invariants:
- no byte behind the durable end is handed out;
- the bytes of one answer are those of one file: it is held open, and looked up again after it was
  opened. An object that is replaced meanwhile ends the answer before it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from lakebed.aof.log import Aof
from lakebed.aof.span import records_end
from lakebed.aof.tiers.errors import Missing, Transient
from lakebed.aof.tiers.object_store import ObjectSource, ObjectStore
from lakebed.aof.view import SegmentInfo
from lakebed.api import logs, topics
from lakebed.api.operation import Operation
from lakebed.base.errors import Busy, NotFound
from lakebed.base.files import Disk
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.logs import find_log_to_read
from lakebed.http_api.lookup import readable_partition_of
from lakebed.http_api.record_pages import ReadLog
from lakebed.http_api.service import Service
from lakebed.http_api.stored_range import StoredRange, answer_range, stored_file
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition
from lakebed.keratin.view import PartitionSegment

_TRIES: Final = 3  # to open what moves from tier to tier while it is looked for


async def log_segments(service: Service, call: Call) -> logs.LogSegments:
    log = await find_log_to_read(service, call)
    return await service.run(partial(_list, log))


def _list(log: ReadLog) -> logs.LogSegments:
    durable_end = log.durable_end()  # first: the segments listed after it contain it
    segments = log.segments()
    states = log.tiers.states() if isinstance(log, Aof) else ()
    compressed = {state.segment_id: state.compressed_bytes for state in states}
    found = []
    for index, info in enumerate(segments):
        size: int | None
        if info.tier:
            size = compressed.get(info.segment_id, info.size)
        elif info.is_sealed:
            size = _file_bytes(log.disk, info.path)
        else:
            size = records_end(segments, index, durable_end)
        found.append(replace(info, size=size))
    return logs.LogSegments(found, int(durable_end))


def _file_bytes(disk: Disk, path: str) -> int | None:
    try:
        with disk.open(path) as file:
            return file.size()
    except NotFound:
        return None  # it was moved just now


async def log_segment_bytes(service: Service, call: Call) -> Response:
    log = await find_log_to_read(service, call)
    query: logs.RangeQuery = call.query
    segment_id = call.number("segment")
    opening = partial(_open_segment, log, segment_id, query.tier)
    return await answer_range(service, call, opening, query.offset, query.length)


def _open_segment(log: ReadLog, segment_id: int, tier: int | None) -> StoredRange:
    """Where it is now; `NotFound` if that is not the tier that is given."""
    for _ in range(_TRIES):
        info = _find(log, segment_id)
        if tier not in (None, info.tier):
            raise NotFound(
                f"{log.name}: segment {segment_id} is in Tier {info.tier} now, not in Tier {tier}"
            )
        try:
            return _open_object(log, info) if info.tier == 2 else _open_file(log, info)
        except (NotFound, Missing):
            continue  # it moved: look where to
    raise Busy(f"{log.name}: segment {segment_id} is being moved from tier to tier")


def _find(log: ReadLog, segment_id: int) -> SegmentInfo:
    for info in log.segments():
        if info.segment_id == segment_id:
            return info
    raise NotFound(f"{log.name}: there is no segment {segment_id}, or nothing durable in it")


def _open_file(log: ReadLog, info: SegmentInfo) -> StoredRange:
    file = log.disk.open(info.path)
    try:
        # Behind the opening: it may have grown, or been sealed, and both only add to it.
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
    assert log.cold is not None, "a log whose segments are elsewhere knows where"
    store = log.cold.store
    head = store.head(info.path)
    source = ObjectSource(store, info.path, size=head.size)
    check_end = partial(_check_same, store, info.path, head.etag)
    return StoredRange(source, head.size, _info_headers(info), check_end=check_end)


def _check_same(store: ObjectStore, key: str, etag: str) -> None:
    if store.head(key).etag != etag:
        raise Transient(f"{key}: it was replaced while it was read")


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
    """A sealed file is replaced by a smaller one before the partition says so: its size tells."""
    for _ in range(_TRIES):
        file = partition.disk.open(_find_log_file(partition, base_offset).path)
        try:
            info = _find_log_file(partition, base_offset)  # as it was after that file was opened
            if generation not in (None, info.generation):
                raise NotFound(
                    f"{partition.name}: segment {base_offset} was replaced by a smaller one: "
                    f"its generation is {info.generation} now, not {generation}"
                )
            if not info.is_sealed or file.size() == info.end:
                return stored_file(file, info.end, _generation_headers(info))
        except BaseException:
            file.close()
            raise
        file.close()
    raise Busy(f"{partition.name}: segment {base_offset} is being replaced by a smaller one")


def _find_log_file(partition: Partition | ReadOnlyPartition, base_offset: int) -> PartitionSegment:
    for info in partition.segments():
        if info.base_offset == base_offset:
            return info
    raise NotFound(f"{partition.name}: there is no segment that begins at {base_offset}")


def _generation_headers(info: PartitionSegment) -> list[tuple[str, str]]:
    sealed = "true" if info.is_sealed else "false"
    return [("Lakebed-Generation", str(info.generation)), ("Lakebed-Sealed", sealed)]


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.LOG_SEGMENTS: log_segments,
    logs.LOG_SEGMENT_BYTES: log_segment_bytes,
    topics.TOPIC_SEGMENTS: topic_segments,
    topics.TOPIC_SEGMENT_BYTES: topic_segment_bytes,
}
