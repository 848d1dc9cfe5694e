"""Pins of a partition's messages: which they cover, how they are written, what retention leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import BadName, Corrupt, InputError, LakebedError
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.partition import Partition
from lakebed.kernels.disk import real_disk
from lakebed.store.pin_file import DURATION_MS_MAX, Pin, decode_pin, encode_pin
from lakebed.store.pins import GRACE_MS, Pins
from lakebed.store.store import Store

MINUTE_NS = 60 * NS_PER_S


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def pins(tmp_path: Path, clock: SimulatedClock) -> Pins:
    numbers = count()
    return Pins(
        real_disk(), tmp_path, clock=clock, is_writer=True, new_id=lambda: f"{next(numbers):016x}"
    )


def make(pins: Pins, *, duration_ms: int = 1000) -> Pin:
    return pins.pin_offsets("orders", 1, start=10, end=20, duration_ms=duration_ms, owner="test")


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 10, False), (0, 11, True), (12, 13, True), (19, 30, True), (20, 30, False), (0, 99, True)],
)
def test_a_pin_covers_ranges_that_overlap_its_own(
    pins: Pins, start: int, end: int, expected: bool
) -> None:
    make(pins)
    assert pins.covers_offsets("orders", 1, start, end) is expected
    assert not pins.covers_offsets("orders", 0, start, end)
    assert not pins.covers_offsets("other", 1, start, end)


def test_pins_of_logs_and_of_topics_are_kept_apart(pins: Pins) -> None:
    of_topic = make(pins)
    of_log = pins.pin("orders", segment_start=0, segment_end=99, duration_ms=1000, owner="test")
    assert pins.active() == [of_log]
    assert pins.active_offsets() == [of_topic]
    assert not pins.covers_offsets("orders", 0, 0, 99)
    assert pins.covers("orders", 50)
    pins.release(of_log.pin_id)
    assert not pins.covers("orders", 15)


def test_a_pin_is_renewed_expires_and_is_removed(
    pins: Pins, clock: SimulatedClock, tmp_path: Path
) -> None:
    pin = make(pins)
    clock.advance(900 * NS_PER_MS)
    renewed = pins.renew(pin.pin_id, duration_ms=1000)
    assert renewed == replace(pin, expires_ms=pin.expires_ms + 900, renewed_ms=pin.created_ms + 900)
    clock.advance(999 * NS_PER_MS)
    assert pins.covers_offsets("orders", 1, 10, 11)
    clock.advance(1 * NS_PER_MS)
    assert not pins.covers_offsets("orders", 1, 10, 11)
    clock.advance(GRACE_MS * NS_PER_MS)
    assert pins.active_offsets() == []
    assert list((tmp_path / "pins").iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": -1},
        {"partition": 10_000},
        {"start": -1},
        {"start": 20},
        {"end": 1 << 63},
        {"duration_ms": 0},
        {"duration_ms": DURATION_MS_MAX + 1},
        {"owner": ""},
        {"topic": "../orders"},
    ],
    ids=str,
)
def test_a_pin_beyond_the_limits_is_refused(pins: Pins, wrong: dict[str, object]) -> None:
    given: dict[str, object] = {
        "topic": "orders", "partition": 1, "start": 10, "end": 20, "duration_ms": 1, "owner": "x",
        **wrong,
    }  # fmt: skip
    with pytest.raises(BadName if "topic" in wrong else InputError):
        pins.pin_offsets(given.pop("topic"), given.pop("partition"), **given)  # type: ignore[arg-type]
    assert pins.active_offsets() == []


def test_the_bytes_of_a_pin_do_not_change() -> None:
    pin = Pin(
        pin_id="00000000000000ff",
        topic="orders",
        partition=0,
        start=3,
        end=700,
        expires_ms=1_700_000_600_000,
        owner="backup",
        created_ms=17,
    )
    written = (
        b'{"version": 1, "topic": "orders", "partition": 0, "offsets": {"start": 3, "end": 700}, '
        b'"expires_ms": 1700000600000, "owner": "backup", "created_ms": 17}\n'
    )
    assert encode_pin(pin) == written
    assert decode_pin(written, pin_id=pin.pin_id) == pin
    for length in range(len(written) - 1):
        with pytest.raises(LakebedError):
            decode_pin(written[:length], pin_id=pin.pin_id)


GOOD = {
    "version": 1,
    "topic": "orders",
    "partition": 0,
    "offsets": {"start": 0, "end": 9},
    "expires_ms": 10_000,
    "owner": "test",
    "created_ms": 0,
}


@pytest.mark.parametrize(
    "changed",
    [
        {"version": 2},
        {"topic": "a/b"},
        {"partition": "0"},
        {"partition": True},
        {"offsets": {"start": 0}},
        {"offsets": {"start": 5, "end": 5}},
        {"offsets": None},
        {"log": "orders"},
    ],
    ids=str,
)
def test_a_file_that_is_no_pin_is_ignored(
    pins: Pins, tmp_path: Path, changed: dict[str, object]
) -> None:
    pin = make(pins)
    path = tmp_path / "pins" / f"{99:016x}.json"
    path.write_text(json.dumps(GOOD | changed))
    with pytest.raises((Corrupt, InputError)):
        decode_pin(path.read_bytes(), pin_id=f"{99:016x}")
    assert pins.active_offsets() == [pin]
    assert pins.active() == []
    assert path.exists()


def test_if_the_pins_cannot_be_read_every_message_is_pinned(pins: Pins, tmp_path: Path) -> None:
    assert not pins.covers_offsets("orders", 0, 0, 1)
    (tmp_path / "pins").write_text("not a folder")
    assert pins.covers_offsets("orders", 0, 0, 1)


# Retention.


def opened(world: World, config: TopicConfig) -> Store:
    return Store.open("/store", disk=world.disk, runner=world.runner, topic_config=config)


def filled(store: Store) -> Partition:
    """Messages of a kibibyte, 15 to a segment."""
    partition = store.topic("orders").partition(0)
    for _ in range(60):
        partition.append_batch([b"x" * KIB]).result()
    return partition


BY_SIZE = TopicConfig(segment_bytes=16 * KIB, retention_bytes=1, reserve_bytes=0, zero_fill=False)
BY_AGE = TopicConfig(segment_bytes=16 * KIB, retention_ms=1000, reserve_bytes=0, zero_fill=False)


@pytest.mark.parametrize("config", [BY_SIZE, BY_AGE], ids=["by size", "by age"])
def test_retention_leaves_what_is_pinned_and_all_behind_it(config: TopicConfig) -> None:
    world = World(5)
    with opened(world, config) as store:
        partition = filled(store)
        bases = [info.base_offset for info in partition.segments()]
        assert len(bases) >= 4
        # The last message of the second segment.
        pin = store.pins.pin_offsets(
            "orders", 0, start=bases[2] - 1, end=bases[2], duration_ms=600_000, owner="test"
        )
        store.pins.pin_offsets("other", 0, start=0, end=9, duration_ms=600_000, owner="test")
        world.runner.advance(MINUTE_NS)
        assert partition.start_offset() == bases[1]
        assert [info.base_offset for info in partition.segments()] == bases[1:]
        store.pins.release(pin.pin_id)
        world.runner.advance(MINUTE_NS)
        assert partition.start_offset() == bases[-1]


def test_a_reader_in_another_process_pins_for_the_writer_and_only_until_it_expires() -> None:
    world = World(6)
    with (
        opened(world, BY_SIZE) as store,
        Store.open("/store", read_only=True, disk=world.disk, runner=world.runner) as reading,
    ):
        reading.pins.pin_offsets("orders", 0, start=0, end=1, duration_ms=90_000, owner="a query")
        partition = filled(store)
        world.runner.advance(MINUTE_NS)
        assert partition.start_offset() == 0
        world.runner.advance(MINUTE_NS)
        assert partition.start_offset() > 0
