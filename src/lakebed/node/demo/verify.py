"""Scanning what the writer left, and looking for all that it acknowledged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.base.files import Disk
from lakebed.kernels import aof_scan
from lakebed.kernels.disk import real_disk
from lakebed.kernels.format import AOF_RECORD
from lakebed.kernels.results import Stop
from lakebed.node.demo.writer import BATCH_COUNT, Acknowledgement, payload

SCAN_COUNT_MAX = 1 << 30


class Found(NamedTuple):
    """What a scan found in one file."""

    path: str
    record_count: int
    payload_bytes: int
    end: int
    stop: str


def scan_file(path: str) -> Found:
    """Verify every checksum of a file of the real disk. Runs in Spark's workers too."""
    with real_disk().open(path) as file:
        data = file.pread(0, file.size())
    scan = aof_scan(data, 0, len(data), count_max=SCAN_COUNT_MAX)
    return Found(path, len(scan.offsets), sum(scan.lengths), scan.end, Stop(scan.stop).name)


def check_acknowledged(disk: Disk, path: str, ledger: Iterable[Acknowledgement]) -> int:
    """How many records of the ledger are there; `Corrupt` at the first that is not."""
    with disk.open(path) as file:
        data = file.pread(0, file.size())
    offsets = set(aof_scan(data, 0, len(data), count_max=SCAN_COUNT_MAX).offsets)
    count = 0
    for entry in ledger:
        first = payload(entry.file, entry.caller, entry.batch, 0)
        start = entry.offset + AOF_RECORD.size
        if entry.offset not in offsets or data[start : start + len(first)] != first:
            raise Corrupt("an acknowledged batch is lost", path=path, offset=entry.offset)
        end = min(entry.offset + entry.length, len(data))
        scan = aof_scan(data, entry.offset, end, count_max=SCAN_COUNT_MAX)
        if len(scan.offsets) != BATCH_COUNT:
            raise Corrupt(
                "an acknowledged batch is cut",
                path=path,
                offset=entry.offset,
                expected=f"{BATCH_COUNT} records",
                found=len(scan.offsets),
            )
        count += len(scan.offsets)
    return count
