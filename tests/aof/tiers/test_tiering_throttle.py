"""Bursts and streams on a log whose tiers drive themselves: who goes first, and who does not wait.

Time is the simulated machine's: a burst is appended with 10 ms from one flush to the next.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random

import pytest

from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.aof.tiers.tiering_policy import TieringPolicy
from lakebed.aof.tiers.tiering_throttle import GIVE_WAY_NS, GIVE_WAY_NS_MAX, TieringThrottle
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import fake_of, open_tiered
from tests.aof.tiers.tiered_logs import CONFIG, check_artefacts, contents
from tests.fakes.object_store import FakeObjectStore

pytestmark = pytest.mark.thorough

MS = 10**6
SECOND = 10**9
SEGMENT_BYTES = CONFIG.segment_bytes
TIER0_SEGMENTS = 16
TIERED = dataclasses.replace(
    CONFIG,
    tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=TIER0_SEGMENTS * SEGMENT_BYTES),
)
SHARED = SharedTierConfig(retry_count=0)


class Machine:
    """A log, and what was appended to it."""

    def __init__(self, seed: int, *, tiers: TierConfig = TIERED.tiers) -> None:
        self.world = World(seed)
        self.store: FakeObjectStore = fake_of(self.world)
        self.random = Random(seed)
        self.written: list[bytes] = []
        self.config = dataclasses.replace(TIERED, tiers=tiers)
        self.manager, self.log = self.open()

    def open(self) -> tuple[AofManager, Aof]:
        return open_tiered(self.world, self.store, config=self.config, shared=SHARED)

    def append(self, segments: int, *, every_ms: int = 10) -> None:
        """That many segments, three records each, without a pause."""
        for _ in range(segments * 3):
            self.append_one(SEGMENT_BYTES * 3 // 10)
            self.rest(every_ms * MS)

    def append_one(self, size: int) -> None:
        self.written.append(self.random.randbytes(size))
        self.log.append_record_with_timeout(self.written[-1], 60)
        self.log.flush()

    def rest(self, duration_ns: int = SECOND) -> None:
        self.world.runner.advance(duration_ns)

    def records(self) -> Counter[str]:
        """What the manifest log says so far, by type."""
        assert self.log.manifest is not None
        self.log.manifest.commit()
        return Counter(placed.record.type_name for placed in self.log.manifest.reader().records())

    def in_tier(self, tier: int) -> int:
        places = self.log.tiers.residency()
        return sum(tier in place.tiers for place in places if place.is_sealed)

    def check_and_close(self) -> None:
        assert contents(self.log) == self.written
        check_artefacts(self.world, self.log, self.store)
        assert not self.world.runner.failures()
        assert not self.manager.failures()
        self.manager.close()


def test_nothing_works_beside_a_burst_that_fits_and_all_of_it_is_stored_in_the_pause() -> None:
    machine = Machine(1)
    machine.append(6)
    assert machine.in_tier(0) >= 5
    assert machine.in_tier(1) == 0
    machine.rest()
    assert machine.in_tier(2) == machine.in_tier(0) >= 5
    machine.check_and_close()


@pytest.mark.parametrize("seed", range(2))
def test_a_burst_is_left_alone_however_much_was_written_before(seed: int) -> None:
    """Found by measuring: once Tier 0 was half full it stayed so, and every burst paid for it."""
    machine = Machine(seed)
    worked = ("CompressionDone", "UploadStarted", "LocalEvicted")
    for _ in range(5):
        before = machine.records()
        machine.append(6)
        after = machine.records()
        assert [after[name] - before[name] for name in worked] == [0, 0, 0]
        machine.rest()
    assert machine.records()["LocalEvicted"] > TIER0_SEGMENTS
    machine.check_and_close()


def test_what_is_kept_for_bursts_is_made_free_in_a_pause_and_no_more() -> None:
    machine = Machine(2)
    for _ in range(3):
        machine.append(6)
        machine.rest()
    assert TIER0_SEGMENTS // 2 - 2 <= machine.in_tier(0) <= TIER0_SEGMENTS // 2
    assert machine.in_tier(1) == machine.in_tier(2)
    machine.check_and_close()


def test_beyond_what_is_kept_for_bursts_the_tiers_work_beside_it() -> None:
    machine = Machine(3)
    machine.append(TIER0_SEGMENTS + 8)
    assert machine.in_tier(2) >= TIER0_SEGMENTS // 2
    machine.check_and_close()


def test_what_is_not_sealed_yet_holds_room_and_what_tier_2_has_does_not() -> None:
    machine = Machine(17)
    machine.append_one(10_000)
    tiering = machine.log.tiering
    assert tiering is not None
    tiering.measure()
    assert all(10_000 < fill.held_bytes < 11_000 for fill in tiering.admission.fills())
    machine.log.seal_current_segment()
    machine.rest(10 * MS)
    assert all(10_000 < fill.held_bytes < 11_000 for fill in tiering.admission.fills())
    machine.rest()
    assert all(fill.held_bytes < 100 for fill in tiering.admission.fills())
    machine.check_and_close()


def test_a_stream_without_a_pause_is_stored_when_its_segments_have_waited_long_enough() -> None:
    machine = Machine(4, tiers=dataclasses.replace(TIERED.tiers, wait_ms_max=3_000))
    machine.append(4, every_ms=200)
    assert machine.in_tier(2) == 0
    machine.append(3, every_ms=200)
    stored = machine.in_tier(2)
    assert 1 <= stored < machine.in_tier(0), "those that waited, and not the newest"
    machine.append(4, every_ms=200)
    assert machine.in_tier(2) > stored
    machine.check_and_close()


def test_room_is_made_in_the_pause_behind_a_stream_of_which_all_is_stored_already() -> None:
    machine = Machine(5, tiers=dataclasses.replace(TIERED.tiers, wait_ms_max=100))
    machine.append(TIER0_SEGMENTS - 4, every_ms=200)
    assert machine.in_tier(2) >= TIER0_SEGMENTS - 6
    assert machine.in_tier(0) > TIER0_SEGMENTS // 2
    machine.rest()
    assert machine.in_tier(0) <= TIER0_SEGMENTS // 2
    machine.check_and_close()


def test_what_a_person_brought_back_beyond_that_leaves_in_the_next_pause() -> None:
    machine = Machine(14)
    for _ in range(2):
        machine.append(6)
        machine.rest()
    kept = machine.in_tier(0)
    machine.append_one(100)
    brought = machine.log.tiers.hydrate()
    machine.append_one(100)
    machine.rest(100 * MS)
    assert machine.in_tier(0) == kept + len(brought) > TIER0_SEGMENTS // 2
    machine.rest()
    assert machine.in_tier(0) == kept
    machine.check_and_close()


def test_an_append_that_waits_for_room_is_worked_for_at_once() -> None:
    """Other logs may fill the budget of all, and none of its own."""
    tiers = TierConfig(
        tiering_enabled=True,
        tier0_bytes_max=4 * SEGMENT_BYTES,
        pause_ms=60_000,
        wait_ms_max=86_400_000,
        burst_percent=100,
    )
    machine = Machine(6, tiers=tiers)
    before_ns = machine.world.clock.monotonic_ns()
    machine.append(12)
    assert machine.world.clock.monotonic_ns() - before_ns < 10 * SECOND
    machine.check_and_close()


def test_a_person_and_a_reader_do_not_wait_for_a_pause() -> None:
    machine = Machine(7)
    machine.append(2)
    assert machine.log.tiers.upload([0]) == [0]
    assert machine.log.tiers.evict([0], warm=True) == [0]
    machine.append(1)
    first = next(iter(machine.log.read()))
    assert first.payload == machine.written[0]
    machine.append(2)
    assert machine.log.tiers.residency()[0].tiers[0] == 0, "it came back meanwhile"
    assert machine.in_tier(2) == 1, "and the others wait"
    assert not machine.log.tiers.moves.claimed()
    machine.check_and_close()


def test_closing_in_a_burst_waits_for_nothing_and_the_rest_is_stored_later() -> None:
    machine = Machine(8)
    machine.append(4)
    before_ns = machine.world.clock.monotonic_ns()
    machine.manager.close()
    assert machine.world.clock.monotonic_ns() - before_ns < 250 * MS
    machine.world.restart(Crash.POWER)
    machine.manager, machine.log = machine.open()
    machine.rest()
    assert machine.in_tier(2) == machine.in_tier(0) >= 3
    machine.check_and_close()


def test_a_compression_is_not_kept_from_its_worker_by_an_upload_that_fails() -> None:
    machine = Machine(9, tiers=dataclasses.replace(TIERED.tiers, wait_ms_max=1_000))
    machine.store.is_down = True
    machine.append(4, every_ms=200)
    machine.rest()
    assert machine.in_tier(1) == machine.in_tier(0) >= 3
    machine.store.is_down = False
    machine.rest(120 * SECOND)
    assert machine.in_tier(2) == machine.in_tier(1)
    machine.check_and_close()


def test_while_all_workers_are_busy_nobody_asks_for_them_in_a_circle() -> None:
    machine = Machine(16, tiers=dataclasses.replace(TIERED.tiers, wait_ms_max=100))
    machine.append(TIER0_SEGMENTS - 5, every_ms=200)
    assert machine.in_tier(0) > TIER0_SEGMENTS // 2, "something is to leave in the next pause"
    machine.store.delay_ns_max = 60 * SECOND
    machine.append(2, every_ms=200)
    before = len(machine.world.trace)
    machine.append(2, every_ms=200)
    assert len(machine.world.trace) - before < 2_000
    assert len(machine.log.tiers.moves.claimed()) == SHARED.uploads
    machine.store.delay_ns_max = 0
    machine.rest(300 * SECOND)
    machine.check_and_close()


# A job that is under way when a burst begins.


class Giving:
    """A job that gives way to the appends of a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.is_stopped = False
        assert machine.log.tiering is not None
        pacing = TieringPolicy(pause_ns=250 * MS, wait_ns_max=600 * SECOND, burst_percent=50)
        self.pace = TieringThrottle(machine.log._context, machine.log.tiering.admission, pacing)
        self.pace.note([0])
        self.give_way = self.pace.give_way(0, lambda: self.is_stopped)

    def begin(self) -> None:
        self.call = self.machine.world.runner.call("job", self.give_way)

    def is_waiting_after(self, duration_ns: int) -> bool:
        self.machine.rest(duration_ns)
        return not self.call.done


def test_a_job_gives_way_until_the_burst_is_over() -> None:
    giving = Giving(Machine(10))
    giving.machine.append(1)
    giving.begin()
    assert giving.is_waiting_after(200 * MS)
    assert not giving.is_waiting_after(100 * MS)


def test_a_compression_that_meets_a_burst_goes_on_behind_it() -> None:
    machine = Machine(15)
    machine.append(1)
    machine.log.seal_current_segment()
    tiering = machine.log.tiering
    assert tiering is not None

    def compress() -> None:
        with machine.log.tiers.moves.claim(0):
            tiering._compress(0)

    call = machine.world.runner.call("worker", compress)
    machine.rest(200 * MS)
    assert not call.done
    assert not machine.in_tier(1)
    machine.rest()
    call.result()
    machine.rest()
    assert machine.in_tier(2) == 1
    machine.check_and_close()


def test_a_job_does_not_give_way_in_a_pause() -> None:
    giving = Giving(Machine(11))
    giving.machine.append(1)
    assert not giving.pace.is_pause
    giving.machine.rest()
    giving.begin()
    assert not giving.is_waiting_after(0)


def test_a_job_gives_way_for_a_second_in_all() -> None:
    giving = Giving(Machine(12))
    giving.begin()
    for _ in range(GIVE_WAY_NS_MAX // (100 * MS) - 1):
        giving.machine.append_one(100)
        assert giving.is_waiting_after(100 * MS)
    giving.machine.append_one(100)
    assert not giving.is_waiting_after(200 * MS)
    giving.machine.append_one(100)
    giving.begin()
    assert not giving.is_waiting_after(0), "and not once more"


def test_a_job_that_is_to_stop_gives_no_way() -> None:
    giving = Giving(Machine(13))
    giving.machine.append(1)
    giving.begin()
    giving.is_stopped = True
    assert not giving.is_waiting_after(2 * GIVE_WAY_NS)
