"""Sealed segments of a few frames, and their warm files, for the tests of the tiers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

from lakebed.aof.paths import SegmentName
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.aof.tiers.warm_file import Compression, WarmFacts, compress_segment
from lakebed.base.files import Disk, make_folders, replace_atomically
from lakebed.base.simulation.disk import SimulatedDisk
from tests.aof.segments import runtime_segment

NAME = SegmentName(7, 123_400, 1_700_000_000_123_456_789)
FOLDER = "/log"
SEGMENT = f"{FOLDER}/a.seg"
WARM = f"{FOLDER}/a.zst"
SMALL_FRAMES = Compression(frame_bytes=4096)


def payloads(count: int, *, seed: int = 1) -> list[bytes]:
    """Records as programs write them: similar, and never the same."""
    random = Random(seed)
    return [
        json.dumps(
            {
                "event": random.choice(["created", "paid", "viewed"]),
                "id": f"{random.getrandbits(64):016x}",
                "user": random.randrange(1_000_000),
                "amount": round(random.random() * 500, 2),
            }
        ).encode()
        for _ in range(count)
    ]


def sealed_segment(
    records: Sequence[bytes] | None = None, *, size: int = 64 << 10, is_sealed: bool = True
) -> bytes:
    """A runtime segment, by default with eight frames' worth of records and as many of zeros."""
    records = payloads(250) if records is None else records
    return runtime_segment(
        records,
        name=NAME,
        size=size,
        timestamps=[1_700_000_000_000_000_000 + number for number in range(len(records))],
        ext_ids=list(range(len(records))),
        is_sealed=is_sealed,
    )


def disk_with(segment: bytes, path: str = SEGMENT) -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    make_folders(disk, FOLDER)
    replace_atomically(disk, path, segment)
    return disk


def warm(segment: bytes, compression: Compression = SMALL_FRAMES) -> tuple[bytes, WarmFacts]:
    """The bytes of its warm file."""
    disk = disk_with(segment)
    facts = compress_segment(disk, SEGMENT, WARM, compression=compression)
    return content(disk, WARM), facts


def content(disk: Disk, path: str) -> bytes:
    with disk.open(path) as file:
        return file.pread(0, file.size())


class CountingSource(BytesSource):
    """Keeps the ranges that were asked for."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, name="counted")
        self.ranges: list[range] = []

    def read_range(self, offset: int, length: int) -> bytes:
        assert 0 <= offset <= offset + length <= self.size
        self.ranges.append(range(offset, offset + length))
        return super().read_range(offset, length)
