"""Pins: what counts, what is ignored, who removes what."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import BadName, InputError, LakebedError, NotFound
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.kernels.disk import real_disk
from lakebed.store.pin_file import DURATION_MS_MAX, OffsetRange, Pin, decode_pin, encode_pin
from lakebed.store.pins import GRACE_MS, Pins
from lakebed.store.store import Store

GOLDEN = Path(__file__).parents[1] / "golden" / "store" / "v1"
MS = 1_000_000


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def pins(tmp_path: Path, clock: SimulatedClock) -> Pins:
    numbers = count()
    return Pins(
        real_disk(), tmp_path, clock=clock, is_writer=True, new_id=lambda: f"{next(numbers):016x}"
    )


def make(pins: Pins, *, duration_ms: int = 1000, start: int = 3, end: int = 7) -> Pin:
    return pins.pin(
        "orders", segment_start=start, segment_end=end, duration_ms=duration_ms, owner="test"
    )


def test_a_pin_covers_its_half_open_range_of_its_log(pins: Pins) -> None:
    make(pins)
    covered = [segment for segment in range(10) if pins.covers("orders", segment)]
    assert covered == [3, 4, 5, 6]
    assert not pins.covers("other", 3)


def test_a_pin_ends_when_it_expires_and_its_file_some_time_later(
    pins: Pins, clock: SimulatedClock, tmp_path: Path
) -> None:
    make(pins)
    clock.advance(999 * MS)
    assert pins.covers("orders", 3)
    clock.advance(1 * MS)
    assert not pins.covers("orders", 3)
    assert len(list((tmp_path / "pins").iterdir())) == 1
    clock.advance(GRACE_MS * MS)
    assert pins.active() == []
    assert list((tmp_path / "pins").iterdir()) == []


def test_a_reader_removes_nothing(pins: Pins, clock: SimulatedClock, tmp_path: Path) -> None:
    make(pins)
    clock.advance(2 * GRACE_MS * MS)
    reader = Pins(real_disk(), tmp_path, clock=clock, is_writer=False)
    assert reader.active() == []
    assert len(list((tmp_path / "pins").iterdir())) == 1


def test_a_store_draws_the_ids_of_its_pins_from_its_random(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.log("orders")
    for read_only in (False, True):
        with Store.open(tmp_path, read_only=read_only, random=Random(7)) as store:
            expected = f"{Random(7).getrandbits(64):016x}"
            assert make(store.pins).pin_id == expected
            store.pins.release(expected)


def test_a_pin_is_renewed_from_now_on(pins: Pins, clock: SimulatedClock) -> None:
    pin = make(pins)
    clock.advance(900 * MS)
    renewed = pins.renew(pin.pin_id, duration_ms=1000)
    assert renewed.expires_ms == pin.expires_ms + 900
    assert replace(renewed, expires_ms=pin.expires_ms, renewed_ms=None) == pin
    clock.advance(999 * MS)
    assert pins.active() == [renewed]


@pytest.mark.parametrize("is_renewed", [False, True])
def test_a_pin_holds_on_when_the_clock_is_set_back(
    pins: Pins, clock: SimulatedClock, is_renewed: bool
) -> None:
    hour_ms = 3600 * 1000
    day_ns = 24 * hour_ms * MS
    pin = make(pins, duration_ms=hour_ms)
    if is_renewed:
        for _ in range(10 * 24 * 2):  # for longer than a pin can last that is not renewed
            clock.advance(hour_ms * MS // 2)
            pins.renew(pin.pin_id, duration_ms=hour_ms)
    clock.skew(-9 * day_ns)
    assert pins.covers("orders", 3)
    pins.renew(pin.pin_id, duration_ms=hour_ms)
    clock.skew(hour_ms * MS)
    assert not pins.covers("orders", 3)


def test_what_expired_or_was_released_cannot_be_renewed(pins: Pins, clock: SimulatedClock) -> None:
    pin = make(pins)
    clock.advance(1000 * MS)
    with pytest.raises(NotFound):
        pins.renew(pin.pin_id, duration_ms=1000)
    other = make(pins)
    pins.release(other.pin_id)
    pins.release(other.pin_id)
    assert pins.active() == []
    with pytest.raises(NotFound):
        pins.renew(other.pin_id, duration_ms=1000)


@pytest.mark.parametrize(
    "pin_id", ["", "..", "../x", "0" * 15, "0" * 17, "G" * 16, "0" * 15 + "\n"]
)
def test_an_id_cannot_leave_the_folder(pins: Pins, pin_id: str) -> None:
    with pytest.raises(BadName):
        pins.release(pin_id)
    with pytest.raises(BadName):
        pins.renew(pin_id, duration_ms=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_start": -1},
        {"segment_start": 7},
        {"segment_end": 1 << 33},
        {"duration_ms": 0},
        {"duration_ms": DURATION_MS_MAX + 1},
        {"owner": ""},
        {"owner": "x" * 201},
    ],
    ids=str,
)
def test_a_pin_beyond_the_limits_is_refused(pins: Pins, wrong: dict[str, object]) -> None:
    given = {"segment_start": 3, "segment_end": 7, "duration_ms": 1, "owner": "test", **wrong}
    with pytest.raises(InputError):
        pins.pin("orders", **given)  # type: ignore[arg-type]
    with pytest.raises(BadName):
        pins.pin("../orders", segment_start=0, segment_end=1, duration_ms=1, owner="test")
    assert pins.active() == []


GOOD = {
    "version": 1,
    "log": "orders",
    "segments": {"start": 0, "end": 9},
    "expires_ms": 10_000,
    "owner": "test",
    "created_ms": 0,
}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "[" * 3000,
        "x" * 5000,
        json.dumps(GOOD | {"version": 2}),
        json.dumps(GOOD | {"log": "../x"}),
        json.dumps(GOOD | {"log": 5}),
        json.dumps(GOOD | {"segments": [0, 9]}),
        json.dumps(GOOD | {"segments": {"start": 0, "end": True}}),
        json.dumps(GOOD | {"segments": {"start": 5, "end": 5}}),
        json.dumps(GOOD | {"expires_ms": 1e9}),
        json.dumps(GOOD | {"expires_ms": 10**18}),
        json.dumps({name: value for name, value in GOOD.items() if name != "owner"}),
    ],
    ids=lambda content: content[:40],
)
def test_a_file_that_is_no_pin_is_ignored_and_left_alone(
    pins: Pins, clock: SimulatedClock, tmp_path: Path, content: str
) -> None:
    pin = make(pins, duration_ms=DURATION_MS_MAX)
    path = tmp_path / "pins" / f"{99:016x}.json"
    path.write_text(content)
    (tmp_path / "pins" / "readme.json").write_text(json.dumps(GOOD))
    (tmp_path / "pins" / f"{98:016x}.json.x-1.tmp").write_text(json.dumps(GOOD))
    assert [active.pin_id for active in pins.active()] == [pin.pin_id]
    assert path.exists()


def test_if_the_pins_cannot_be_read_everything_is_pinned(pins: Pins, tmp_path: Path) -> None:
    assert not pins.covers("orders", 0)
    (tmp_path / "pins").write_text("not a folder")
    assert pins.covers("orders", 0)


def test_the_bytes_of_a_pin_do_not_change() -> None:
    golden = (GOLDEN / "pin.json").read_bytes()
    pin = Pin(
        pin_id="00000000000000ff",
        log="orders",
        start=3,
        end=7,
        expires_ms=1_700_000_600_000,
        owner="backup",
        created_ms=1_700_000_000_000,
    )
    assert encode_pin(pin) == golden
    assert decode_pin(golden, pin_id=pin.pin_id) == pin


def test_no_truncation_of_a_pin_is_taken_for_one() -> None:
    golden = (GOLDEN / "pin.json").read_bytes()
    for length in range(len(golden) - 1):
        with pytest.raises(LakebedError):
            decode_pin(golden[:length], pin_id="00000000000000ff")


def test_several_pins_are_made_renewed_and_released_together(
    pins: Pins, clock: SimulatedClock
) -> None:
    ranges = [OffsetRange("orders", number, 5, 9) for number in range(3)]
    made = pins.pin_ranges(ranges, duration_ms=60_000, owner="test")
    found = [(pin.topic, pin.partition, pin.start, pin.end) for pin in made]
    assert found == [("orders", number, 5, 9) for number in range(3)]
    ids = [pin.pin_id for pin in made]
    clock.advance(30_000 * MS)
    pins.release(ids[0])
    pins.renew(ids[1], duration_ms=3_600_000)
    assert pins.renew_all(ids, duration_ms=60_000) == ids[1:]
    now_ms = clock.wall_ns() // MS
    assert [pin.expires_ms - now_ms for pin in pins.active_offsets()] == [60_000, 60_000]
    clock.advance(60_000 * MS)
    assert pins.renew_all(ids, duration_ms=60_000) == []
    pins.release_all(ids)
    pins.release_all(ids)
    assert pins.active_offsets() == []


def test_a_pin_that_another_task_has_just_renewed_is_not_written_again(
    pins: Pins, clock: SimulatedClock, tmp_path: Path
) -> None:
    (pin,) = pins.pin_ranges([OffsetRange("orders", 0, 0, 9)], duration_ms=60_000, owner="test")
    (path,) = (tmp_path / "pins").iterdir()
    number = path.stat().st_ino
    clock.advance(1000 * MS)
    assert pins.renew_all([pin.pin_id], duration_ms=60_000) == [pin.pin_id]
    assert path.stat().st_ino == number
    clock.advance(20_000 * MS)
    assert pins.renew_all([pin.pin_id], duration_ms=60_000) == [pin.pin_id]
    assert path.stat().st_ino != number


def test_none_is_made_if_one_of_several_cannot_be(pins: Pins) -> None:
    with pytest.raises(InputError):
        pins.pin_ranges(
            [OffsetRange("orders", 0, 0, 9), OffsetRange("orders", 1, 9, 9)],
            duration_ms=60_000,
            owner="test",
        )
    assert pins.active_offsets() == []


def test_readers_that_pin_remove_what_expired_long_ago(
    tmp_path: Path, clock: SimulatedClock
) -> None:
    reader = Pins(real_disk(), tmp_path, clock=clock, is_writer=False)
    for _ in range(3):
        make(reader)
        reader.pin_ranges([OffsetRange("orders", 0, 0, 9)], duration_ms=1000, owner="test")
        clock.advance((1000 + GRACE_MS) * MS)
    assert len(list((tmp_path / "pins").iterdir())) == 1 + 1
