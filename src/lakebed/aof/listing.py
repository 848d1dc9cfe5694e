"""Lists the segments of a log by reading its folder, without changing anything.

Spare segment files, temporary files, index files and the sealed pointer are left out. All other
files whose names are not segment names are left out too, and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lakebed.aof.envelope import check_footer
from lakebed.aof.format import FOOTER_BYTES, RECORDS_START, records_end_max
from lakebed.aof.interchange_segment import is_interchange_file
from lakebed.aof.paths import SPARE_SUFFIX, LogPaths, SegmentName
from lakebed.aof.record_id import SEGMENT_INDEX_MAX
from lakebed.aof.sparse_index import INDEX_SUFFIX
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import Corrupt, NotFound
from lakebed.base.files import Disk
from lakebed.base.files.protocol import TEMPORARY_SUFFIX


class SegmentListing(NamedTuple):
    """The segments in a log's folder, oldest first, and the number of unexpected files there."""

    segments: tuple[SegmentInfo, ...]
    ignored_count: int


def list_segments(
    disk: Disk, paths: LogPaths, *, known: Mapping[str, SegmentInfo]
) -> SegmentListing:
    """Lists the segments folder as it is now.

    `known` has the segments of an earlier listing, by path; those that were sealed then are not
    opened again. Raises `NotFound` if the folder does not exist, `Corrupt` if two files have the
    same segment number, and `UnknownVersion` if a segment's footer has an unsupported version.
    """
    segments: list[SegmentInfo] = []
    ignored_count = 0
    for name in disk.names(paths.segments):
        parsed = SegmentName.parse(name)
        if parsed is None or parsed.segment_id > SEGMENT_INDEX_MAX:
            ignored_count += not _is_other(name, paths)
            continue
        earlier = known.get(paths.segment(parsed))
        info = earlier if earlier and earlier.is_sealed else _segment_info(disk, paths, parsed)
        if info is None:
            continue
        if segments and segments[-1].segment_id == info.segment_id:
            raise Corrupt("another file has the same segment number", path=info.path)
        segments.append(info)
    return SegmentListing(tuple(segments), ignored_count)


def _is_other(name: str, paths: LogPaths) -> bool:
    other_suffixes = (SPARE_SUFFIX, TEMPORARY_SUFFIX, INDEX_SUFFIX)
    return name.endswith(other_suffixes) or paths.pointer.endswith(f"/{name}")


def _segment_info(disk: Disk, paths: LogPaths, name: SegmentName) -> SegmentInfo | None:
    """Describes a segment from its file, or returns None if the file no longer exists."""
    info = SegmentInfo(*name, path=paths.segment(name), is_sealed=False, end=None)
    try:
        with disk.open(info.path) as file:
            if is_interchange_file(file):
                return replace(info, is_sealed=True)  # published whole
            size = file.size()
            if size < RECORDS_START + FOOTER_BYTES:
                return replace(info, is_sealed=True)  # damaged: reading it reports that
            data = file.pread(records_end_max(size), FOOTER_BYTES)
    except NotFound:
        return None
    try:
        footer = check_footer(data, info, size=size)
    except Corrupt:
        footer = None  # being written now, or damaged
    if footer is None:
        return info
    return replace(info, is_sealed=True, end=footer.durable_bytes)
