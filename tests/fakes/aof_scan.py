"""The records of a log, read from its files alone: independent of the engine's own readers."""

from __future__ import annotations

from lakebed.aof.format import RECORDS_START, records_end_max
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.aof.record_id import RecordId
from lakebed.base.files import Disk
from lakebed.kernels import aof_scan
from lakebed.kernels.format import AOF_RECORD

Found = tuple[RecordId, int, int, bytes]


def scan_log(disk: Disk, *, root: str = "/store", name: str = "orders") -> list[Found]:
    """Id, timestamp, ext id and payload of every whole record, up to the first that is not."""
    paths = LogPaths(root, name)
    found: list[Found] = []
    if not disk.exists(paths.segments):
        return found
    for entry in disk.names(paths.segments):
        segment = SegmentName.parse(entry)
        if segment is None:
            continue
        with disk.open(paths.segment(segment)) as file:
            data = file.pread(0, records_end_max(file.size()))
        scan = aof_scan(data, RECORDS_START, len(data), count_max=len(data))
        for offset, length, timestamp, ext_id in zip(
            scan.offsets, scan.lengths, scan.timestamps, scan.ext_ids, strict=True
        ):
            start = offset + AOF_RECORD.size
            record_id = RecordId.from_parts(segment.segment_id, offset)
            found.append((record_id, timestamp, ext_id, data[start : start + length]))
    return found
