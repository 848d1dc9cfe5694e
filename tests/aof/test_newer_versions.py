"""Files of a newer version, whole and sound: opening refuses them, and changes none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    DURABLE_END,
    FOOTER_BYTES,
    RECORDS_START,
    SEALED_POINTER,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
)
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.format import CHUNK_HEADER, SNAPSHOT_HEADER
from lakebed.base.errors import UnknownVersion
from lakebed.base.layout import Layout
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels import crc64nvme

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
FOLDER = "/store/aof/orders"


def _tree(disk: SimulatedDisk, folder: str = "/store") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        if disk.is_folder(path):
            found |= _tree(disk, path)
            continue
        with disk.open(path) as file:
            found[path] = file.pread(0, file.size())
    return found


def _written() -> World:
    """One sealed segment, one that is written, a manifest log with a snapshot."""
    world = World(1)
    with AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner) as manager:
        log = manager.open("orders")
        log.append_record(b"first")
        log.seal_current_segment()
        log.append_records([b"second", b"third"])
        log.flush()
    return world


def _change(disk: SimulatedDisk, path: str, change: Callable[[bytes], bytes]) -> None:
    with disk.open(path) as file:
        data = file.pread(0, file.size())
    disk.unlink(path)
    with disk.create(path) as file:
        file.pwrite(0, change(data))
        file.sync()


def _newer(layout: Layout, data: bytes, start: int = 0) -> bytes:  # type: ignore[type-arg]
    value = layout.unpack(data, start)
    value = value._replace(version=value.version + 1)
    return data[:start] + layout.pack(value) + data[start + layout.size :]


def _newer_and_summed(layout: Layout, data: bytes) -> bytes:  # type: ignore[type-arg]
    """With the crc64 at its end that belongs to it."""
    changed = _newer(layout, data)
    summed = changed[: layout.offset_of("crc64")]
    return summed + crc64nvme(summed).to_bytes(8, "little")


def _with_other_records(data: bytes) -> bytes:
    """A newer segment, the records of which are laid out as only its own program knows."""
    changed = bytearray(_newer(SEGMENT_HEADER, data))
    changed[RECORDS_START : RECORDS_START + 4096] = bytes(range(128, 256)) * 32
    return bytes(changed)


def _newer_footer(data: bytes) -> bytes:
    footer = SEGMENT_FOOTER.unpack(data, len(data) - FOOTER_BYTES)
    return data[:-FOOTER_BYTES] + encode_footer(footer._replace(version=3))


def _path(world: World, part: str) -> str:
    return max(path for path in _tree(world.disk) if part in path)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (f"{FOLDER}/segments/{1:020}_", _with_other_records),
        (f"{FOLDER}/segments/current.sealed", lambda data: _newer_and_summed(SEALED_POINTER, data)),
        (
            f"{FOLDER}/segments/current.sealed",
            lambda data: _newer(SEALED_POINTER, data) + b"what only the newer one knows",
        ),
        (f"{FOLDER}/durable_end", lambda data: _newer_and_summed(DURABLE_END, data)),
        (f"{FOLDER}/durable_end", lambda data: _newer(DURABLE_END, data) + b"and more"),
        (".mlog", lambda data: _newer(CHUNK_HEADER, data)),
        ("snapshot_", lambda data: _newer(SNAPSHOT_HEADER, data) + b"and more"),
    ],
    ids=["segment", "pointer", "longer-pointer", "end", "longer-end", "chunk", "snapshot"],
)
def test_a_file_of_a_newer_version_is_refused_and_nothing_is_changed(
    part: str, change: Callable[[bytes], bytes]
) -> None:
    world = _written()
    path = _path(world, part)
    _change(world.disk, path, change)
    before = _tree(world.disk)
    manager = AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)
    with pytest.raises(UnknownVersion) as refused:
        manager.open("orders")
    assert path in str(refused.value)
    assert _tree(world.disk) == before


def test_a_footer_of_a_newer_version_is_refused_and_nothing_is_changed() -> None:
    world = _written()
    world.disk.unlink(f"{FOLDER}/segments/current.sealed")
    path = _path(world, f"{FOLDER}/segments/{0:020}_")
    _change(world.disk, path, _newer_footer)
    before = _tree(world.disk)
    manager = AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)
    with pytest.raises(UnknownVersion, match="footer"):
        manager.open("orders")
    assert _tree(world.disk) == before
