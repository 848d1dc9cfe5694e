"""The index shortens searches and decides nothing: with it, without it, or with a damaged one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.format import RECORDS_START, SparseIndexEntry
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.sparse_index import (
    decode_index,
    encode_index,
    index_path,
    load_index,
    start_for_timestamp,
)
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

ENTRIES = [SparseIndexEntry(1000, 5), SparseIndexEntry(2000, 5), SparseIndexEntry(3000, 9)]


@pytest.mark.parametrize(
    ("timestamp", "start"),
    [(0, RECORDS_START), (5, RECORDS_START), (6, 2000), (9, 2000), (10, 3000), (99, 3000)],
)
def test_a_search_starts_behind_what_is_older_for_certain(timestamp: int, start: int) -> None:
    assert start_for_timestamp(ENTRIES, timestamp) == start
    assert start_for_timestamp((), timestamp) == RECORDS_START


def test_an_index_reads_back_and_every_flipped_bit_is_noticed() -> None:
    data = encode_index(7, ENTRIES)
    assert list(decode_index(data, segment_id=7)) == ENTRIES
    assert decode_index(data, segment_id=8) == ()
    stride = range(12, 16)  # the only bytes nothing checks: they are for people
    reserved = range(6, 8)
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 1
        is_unchecked = offset in stride or offset in reserved
        assert bool(decode_index(bytes(flipped), segment_id=7)) == is_unchecked
    for length in range(len(data)):
        assert decode_index(data[:length], segment_id=7) == ()


def _log(world: World, *, is_indexed: bool, retention: RetentionConfig | None = None) -> Aof:
    config = AofConfig(
        segment_bytes=1024 * KIB,
        enable_sparse_index=is_indexed,
        flush=FlushConfig(reserve_bytes=0),
        retention=retention or RetentionConfig(),
    )
    return AofManager("/store", config=config, disk=world.disk, runner=world.runner).open("orders")


@settings(max_examples=8)
@given(seed=st.integers(0, 100))
def test_a_time_is_found_where_a_plain_search_finds_it(seed: int) -> None:
    random = Random(seed)
    stamps = [random.randrange(1000) for _ in range(300)]
    found = []
    for is_indexed in (False, True):
        world = World(1)
        log = _log(world, is_indexed=is_indexed)
        log.append_records([b"x" * 3000] * 300, timestamps=stamps)
        info = log.seal_current_segment()
        assert info is not None
        world.runner.settle()
        assert world.disk.exists(index_path(info.path)) == is_indexed
        found.append([log.seek_timestamp(at) for at in range(0, 1001, 50)])
        if is_indexed:
            assert 10 < len(load_index(world.disk, info.path, segment_id=0)) < 15
    assert found[0] == found[1]


def test_a_damaged_index_is_as_good_as_none() -> None:
    world = World(2)
    log = _log(world, is_indexed=True)
    ids = log.append_records([b"x" * 3000] * 300, timestamps=list(range(300)))
    info = log.seal_current_segment()
    assert info is not None
    world.runner.settle()
    world.disk.flip_bit(index_path(info.path), offset=40)
    assert load_index(world.disk, info.path, segment_id=0) == ()
    assert log.seek_timestamp(200) == ids[200]


def test_an_index_goes_with_its_segment() -> None:
    world = World(3)
    log = _log(world, is_indexed=True, retention=RetentionConfig(count_max=1))
    for _ in range(3):
        log.append_records([b"x" * 3000] * 100)
        log.seal_current_segment()
    world.runner.settle()
    names = world.disk.names("/store/aof/orders/segments")
    assert [name for name in names if name.endswith(".idx")] == [
        name.replace(".seg", ".idx") for name in names if name.endswith(".seg")
    ][:1]
