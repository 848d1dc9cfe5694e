"""Pins that are created while retention decides: the segments are gone already, or they stay."""

from __future__ import annotations

from random import Random

import pytest

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.base.clock import NS_PER_MS
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.store.pin_file import Pin
from lakebed.store.store import Store

LOG_CONFIG = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(reserve_bytes=0),
    retention=RetentionConfig(count_max=1),
)
TOPIC_CONFIG = TopicConfig(segment_bytes=64 * KIB, retention_bytes=1)


# In these seeds, a pin comes between the check and the removal if nothing prevents it.
@pytest.mark.parametrize("seed", [23, 34, 145, 167, 212, 234])
def test_a_segment_of_a_log_that_was_there_after_it_was_pinned_stays(seed: int) -> None:
    world, random = World(seed), Random(seed)
    store = Store.open("/store", config=LOG_CONFIG, disk=world.disk, runner=world.runner)
    log = store.log("orders")
    kept: set[int] = set()

    def pin(segment_id: int) -> Pin:
        return store.pins.pin(
            "orders",
            segment_start=segment_id,
            segment_end=segment_id + 1,
            duration_ms=3_600_000,
            owner="test",
        )

    def seal(number: int) -> None:
        log.append_record(b"record %d" % number)
        log.seal_current_segment()

    def seal_one_more() -> None:
        store.pins.release(first.pin_id)
        seal(8)  # which wakes retention

    def pin_some() -> None:
        for segment_id in random.sample(range(8), k=3):
            pin(segment_id)
            if segment_id in {info.segment_id for info in log.segments()}:
                kept.add(segment_id)

    first = pin(0)
    for number in range(8):
        seal(number)
    world.runner.call("seal", seal_one_more)
    world.runner.call("pin", pin_some)
    world.runner.run()
    world.runner.advance(60_000 * NS_PER_MS)
    assert kept <= {info.segment_id for info in log.segments()}
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_messages_that_were_there_after_they_were_pinned_stay(seed: int) -> None:
    world, random = World(seed), Random(seed)
    store = Store.open("/store", topic_config=TOPIC_CONFIG, disk=world.disk, runner=world.runner)
    partition = store.topic("orders").partition(0)
    kept: set[int] = set()

    def pin(offset: int) -> Pin:
        return store.pins.pin_offsets(
            "orders", 0, start=offset, end=offset + 1, duration_ms=3_600_000, owner="test"
        )

    def seal(number: int) -> None:
        partition.append_batch([b"message %d" % number]).result()
        partition.seal()

    def seal_one_more() -> None:
        store.pins.release(first.pin_id)
        seal(8)  # which wakes retention

    def pin_some() -> None:
        for offset in random.sample(range(8), k=3):
            pin(offset)
            if offset >= partition.start_offset():
                kept.add(offset)

    first = pin(0)
    for number in range(8):
        seal(number)
    world.runner.call("seal", seal_one_more)
    world.runner.call("pin", pin_some)
    world.runner.run()
    world.runner.advance(60_000 * NS_PER_MS)
    assert partition.start_offset() <= min(kept, default=9)
    store.close()
