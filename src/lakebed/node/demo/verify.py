"""Looking for all that the writer acknowledged, and scanning its files without the engine."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from lakebed.aof.format import RECORDS_START, records_end_max
from lakebed.aof.log import Aof
from lakebed.base.errors import Corrupt
from lakebed.kernels import aof_scan
from lakebed.kernels.disk import real_disk
from lakebed.kernels.results import Stop
from lakebed.node.demo.writer import BATCH_COUNT, Acknowledgement, first_id, payload


class Found(NamedTuple):
    """What a scan found in one segment."""

    path: str
    record_count: int
    payload_bytes: int
    stop: str


def scan_segment(path: str) -> Found:
    """Verify every checksum of a segment of the real disk. Runs in Spark's workers."""
    with real_disk().open(path) as file:
        data = file.pread(0, records_end_max(file.size()))
    scan = aof_scan(data, RECORDS_START, len(data), count_max=len(data))
    return Found(path, len(scan.offsets), sum(scan.lengths), Stop(scan.stop).name)


def check_acknowledged(log: Aof, ledger: Iterable[Acknowledgement]) -> int:
    """How many records of the ledger are there; `Corrupt` at the first that is not."""
    count = 0
    for entry in ledger:
        records = islice(log.read(start=first_id(entry)), BATCH_COUNT)
        found = [(record.record_id, record.payload) for record in records]
        expected = [
            payload(entry.log, entry.caller, entry.batch, index) for index in range(BATCH_COUNT)
        ]
        if [data for _, data in found] != expected or found[-1][0] != entry.last:
            raise Corrupt(
                "an acknowledged batch is not there as it was", path=log.name, offset=entry.first
            )
        count += len(found)
    return count
