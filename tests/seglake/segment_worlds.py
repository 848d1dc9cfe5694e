"""A lake's segments on a simulated machine, without its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from lakebed.base.files import Disk, make_folders
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels.checksum import blake3
from lakebed.seglake.chunk_reader import ChunkReader
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.meta.rows import SegmentRow
from lakebed.seglake.segment_id import segment_id_of, segment_path
from lakebed.seglake.segment_pool import SegmentPool
from lakebed.seglake.segment_recovery import RecoveredSegments, recover_segments

FOLDER = "/store/objects/segments"
QUARANTINE = "/store/quarantine"
CONFIG = SeglakeConfig(segment_bytes=64 * KIB, segment_idle_ms=1000)
UNCACHED = SeglakeConfig(segment_bytes=64 * KIB, cache_bytes=0)


def new_world(seed: int = 1) -> World:
    world = World(seed)
    make_folders(world.disk, FOLDER)
    return world


def open_segments(world: World, config: SeglakeConfig = CONFIG, *, seed: int = 0) -> SegmentPool:
    return SegmentPool(
        FOLDER, disk=world.disk, runner=world.runner, config=config, random=Random(seed)
    )


def open_reader(world: World, config: SeglakeConfig = UNCACHED) -> ChunkReader:
    return ChunkReader(FOLDER, disk=world.disk, runner=world.runner, config=config)


def record(number: int, size: int | None = None) -> tuple[bytes, bytes]:
    """A chunk's hash and bytes, unlike those of all other numbers."""
    size = 1 + number * 379 % 3000 if size is None else size
    data = Random(number).randbytes(size)
    return blake3(data), data


def recover(
    world: World, rows: dict[str, SegmentRow], offsets: tuple[int, ...] = ()
) -> RecoveredSegments:
    """As the lake does it: what is told is recorded."""
    found = recover_segments(
        world.disk,
        FOLDER,
        quarantine=QUARANTINE,
        known=rows,
        offsets_of=lambda _: offsets,
        clock=world.clock,
    )
    rows.update((row.segment_id, row) for row in found.rows)
    return found


def segment_ids(disk: Disk) -> list[str]:
    return [segment_id for name in disk.names(FOLDER) if (segment_id := segment_id_of(name))]


def file_bytes(disk: Disk, segment_id: str) -> bytes:
    with disk.open(segment_path(FOLDER, segment_id)) as file:
        return file.pread(0, file.size())


def put_file(disk: Disk, segment_id: str, data: bytes) -> None:
    """Durably, whatever was there."""
    path = segment_path(FOLDER, segment_id)
    if disk.exists(path):
        disk.unlink(path)
    with disk.create(path) as file:
        file.write_and_sync(0, [data])
    disk.sync_folder(FOLDER)


def quarantined(disk: Disk) -> Iterator[tuple[str, bytes]]:
    for name in disk.names(QUARANTINE) if disk.exists(QUARANTINE) else []:
        with disk.open(f"{QUARANTINE}/{name}") as file:
            yield name, file.pread(0, file.size())
