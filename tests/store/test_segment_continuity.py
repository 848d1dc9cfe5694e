"""Segments continue each other: counts and offsets, also after a crash in between."""

from __future__ import annotations

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.footer import decode_footer, encode_footer
from lakebed.aof.format import (
    FOOTER_BYTES,
    SEGMENT_HEADER,
    SegmentHeader,
    next_base_offset,
    records_end_max,
)
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.paths import LogPaths, SegmentName
from lakebed.base.files import Disk
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.store.log_check import check_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.repair import preview_repair, repair
from lakebed.store.segment_continuity import neighbour_problems, outline_of
from lakebed.store.store import Store
from lakebed.store.verification import Problem, Verification, check_segment

SEGMENT_BYTES = 64 * KIB
CONFIG = AofConfig(segment_bytes=SEGMENT_BYTES, flush=FlushConfig(reserve_bytes=0))
PATHS = LogPaths("/store", "orders")


def _open(world: World) -> tuple[AofManager, Aof]:
    manager = AofManager("/store", config=CONFIG, disk=world.disk, runner=world.runner)
    return manager, manager.open("orders")


def _seal(log: Aof, *payloads: bytes) -> None:
    log.append_records(payloads)
    log.seal_current_segment()


def _problems(disk: Disk) -> list[Problem]:
    pieces = Verification(disk, PATHS).pieces()
    outlines = [outline_of(check_segment(disk, piece)) for piece in pieces]
    return neighbour_problems(one for one in outlines if one is not None)


def _names(disk: Disk) -> list[SegmentName]:
    found = map(SegmentName.parse, disk.names(PATHS.segments))
    return sorted(name for name in found if name is not None)


def _headers(disk: Disk) -> list[SegmentHeader]:
    headers = []
    for name in _names(disk):
        with disk.open(PATHS.segment(name)) as file:
            headers.append(SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size)))
    return headers


def _activate_next(world: World, log: Aof) -> None:
    """As a crash right after it leaves it: the file has its name, and no byte was written."""
    last = log.segments()[-1]
    assert last.end is not None
    base_offset = next_base_offset(last.base_offset, last.end)
    name = SegmentName(last.segment_id + 1, base_offset, last.created_at + 1)
    with world.disk.create(PATHS.segment(name), size=SEGMENT_BYTES) as file:
        file.sync()
    world.disk.sync_folder(PATHS.segments)


def test_records_are_counted_on_after_a_crash_right_after_an_activation() -> None:
    world = World(1)
    manager, log = _open(world)
    _seal(log, b"a", b"b")
    _seal(log, b"c")
    _activate_next(world, log)
    manager.close()
    manager, log = _open(world)
    _seal(log, b"d", b"e", b"f")
    log.append_record(b"g")
    log.flush()
    assert [header.base_record_count for header in _headers(world.disk)] == [0, 2, 3, 6]
    assert _problems(world.disk) == []
    manager.close()


def test_they_are_counted_on_by_its_records_where_the_footer_before_is_damaged() -> None:
    world = World(2)
    manager, log = _open(world)
    _seal(log, b"a", b"b")
    _activate_next(world, log)
    manager.close()
    with world.disk.open(PATHS.segment(_names(world.disk)[0]), writable=True) as file:
        file.pwrite(records_end_max(SEGMENT_BYTES) + 40, b"damage")
        file.sync()
    manager, log = _open(world)
    log.append_record(b"c")
    log.flush()
    assert _headers(world.disk)[-1].base_record_count == 2
    manager.close()


def test_an_activated_segment_is_gone_on_with_when_all_before_it_are_in_colder_tiers() -> None:
    world = World(3)
    manager, log = _open(world)
    _seal(log, b"a", b"b")
    log.tiers.upload()
    _activate_next(world, log)
    log.tiers.evict(warm=True)
    manager.close()
    manager, log = _open(world)
    _seal(log, b"c")
    (header,) = _headers(world.disk)
    assert (header.segment_index, header.base_record_count) == (1, 2)
    manager.close()
    manager, log = _open(world)
    assert [record.payload for record in log.read()] == [b"a", b"b", b"c"]
    manager.close()


def _miscount(disk: Disk, name: SegmentName) -> str:
    """A segment that counts from 0, whole in itself."""
    path = PATHS.segment(name)
    with disk.open(path, writable=True) as file:
        header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
        file.pwrite(0, SEGMENT_HEADER.pack(header._replace(base_record_count=0)))
        footer = decode_footer(file.pread(records_end_max(SEGMENT_BYTES), FOOTER_BYTES))
        if footer is not None:
            changed = encode_footer(footer._replace(base_record_count=0))
            file.pwrite(records_end_max(SEGMENT_BYTES), changed)
        file.sync()
    return path


@pytest.mark.parametrize("number", [1, 2])
def test_verify_and_repair_find_a_segment_that_does_not_continue_the_one_before(
    number: int,
) -> None:
    world = World(4)
    manager, log = _open(world)
    _seal(log, b"a", b"b")
    _seal(log, b"c", b"d")
    log.append_record(b"e")
    log.flush()
    manager.close()
    path = _miscount(world.disk, _names(world.disk)[number])
    told = f"counts 0 records before it, but {2 * number} is expected after segment {number - 1}"
    found = preview_repair(world.disk, "/store", "orders", progress=lambda *_: None)
    assert any(path in one and told in one for one in found.problems)
    with Store.open("/store", disk=world.disk, runner=world.runner, config=CONFIG) as store:
        done = repair(store, "orders", progress=lambda *_: None)
        assert any(path in one and told in one for one in done.problems)
        with ReadOnlyStore("/store", disk=world.disk, runner=world.runner) as reader:
            report = check_log(reader, "orders", tier2=False, progress=lambda *_: None)
    assert [(one.path, told in one.problem) for one in report.problems][:1] == [(path, True)]
    assert len({one.path for one in report.problems}) <= 2


def test_offsets_of_neighbours_are_compared() -> None:
    world = World(5)
    manager, log = _open(world)
    for payload in (b"a", b"b", b"c"):
        _seal(log, payload)
    manager.close()
    name = _names(world.disk)[1]
    moved = name._replace(base_offset=name.base_offset + 8)
    path = PATHS.segment(moved)
    world.disk.rename(PATHS.segment(name), path)
    with world.disk.open(path, writable=True) as file:
        header = SEGMENT_HEADER.unpack(file.pread(0, SEGMENT_HEADER.size))
        file.pwrite(0, SEGMENT_HEADER.pack(header._replace(base_offset=moved.base_offset)))
    problems = _problems(world.disk)
    assert [one.path for one in problems] == [path, PATHS.segment(_names(world.disk)[2])]
    assert f"begins at offset {moved.base_offset} of the log" in problems[0].problem
