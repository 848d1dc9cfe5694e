"""Hypothesis moves a log's segments from tier to tier, in any order, with everything that may come
between: a store that is down, warm files that are lost or damaged, crashes.

After every step: the manifest log names no copy that is not there; every sealed record is read
from some tier, under the id it was given; no segment has two objects.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.aof.config import FlushConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.manifest.state import Residency
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.config import TierConfig
from lakebed.aof.tiers.errors import Tier2Error
from lakebed.base.errors import Busy, DataError, InputError, NotFound
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from tests.aof.tiers.chaotic_logs import SHARED, TIERED, calm, fake_of, open_tiered, segment_objects
from tests.aof.tiers.tiered_logs import CONFIG
from tests.fakes.object_store import FakeObjectStore, Trouble

pytestmark = pytest.mark.sweep

MS = 10**6
FLUSH = FlushConfig(reserve_bytes=0, flush_ms=10, flush_bytes=16 * 1024)
BY_HAND = dataclasses.replace(CONFIG, flush=FLUSH)
BY_ITSELF = dataclasses.replace(
    TIERED, flush=FLUSH, tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=256 * 1024)
)
UNREPEATED = dataclasses.replace(SHARED, retry_count=0)  # so that failures come through
SIZES = st.integers(1, 45_000)
TROUBLES = st.sampled_from(list(Trouble))


class TierMachine(RuleBasedStateMachine):
    """`appended` is the model; what is sealed, and what was flushed, is read whatever happens."""

    @initialize(seed=st.integers(0, 10_000), is_driven=st.booleans())
    def start(self, seed: int, is_driven: bool) -> None:
        self.world = World(seed)
        self.store = fake_of(self.world)
        self.config = BY_ITSELF if is_driven else BY_HAND
        self.appended: list[tuple[RecordId, bytes]] = []
        self.acknowledged = 0
        self.lost: set[int] = set()  # whose warm file this machine lost, since it was opened
        self.is_damaged = False  # one was, at some time
        self.manager: AofManager
        self.log: Aof
        self.open()
        for size in (100, 30_000, 5_000):
            self.append([size])
            self.seal()

    def open(self) -> None:
        self.manager, self.log = open_tiered(
            self.world, self.store, config=self.config, shared=UNREPEATED
        )

    # What users do.

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        for size in sizes:
            data = (b"%d " % len(self.appended)) * (1 + size // 4)
            try:
                record_id = self.log.append_record_with_timeout(data[:size], 1)
            except Busy:
                assert self.config is BY_ITSELF, "only the tiers make an append wait"
                return
            self.appended.append((record_id, data[:size]))

    @rule(size=SIZES)
    def fill_a_segment(self, size: int) -> None:
        self.append([size])
        self.seal()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.acknowledged = len(self.appended)

    @rule()
    def seal(self) -> None:
        try:
            self.log.seal_current_segment(timeout=1)
        except Busy:
            assert self.config is BY_ITSELF
            return
        self.acknowledged = len(self.appended)

    @rule(milliseconds=st.sampled_from([1, 50, 300, 5_000, 120_000]))
    def let_time_pass(self, milliseconds: int) -> None:
        self.world.runner.advance(milliseconds * MS)

    @rule()
    def upload(self) -> None:
        self.attempt(self.log.tiers.upload)

    @rule(data=st.data(), warm=st.booleans())
    def evict(self, data: st.DataObject, warm: bool) -> None:
        number = self.draw_segment(data)
        self.attempt(lambda: self.log.tiers.evict([number], warm=warm))

    @rule(data=st.data(), warm=st.booleans())
    def upload_and_evict(self, data: st.DataObject, warm: bool) -> None:
        number = self.draw_segment(data)
        self.attempt(lambda: self.log.tiers.upload([number]))
        self.attempt(lambda: self.log.tiers.evict([number], warm=warm))

    @rule(warm=st.booleans())
    def evict_all(self, warm: bool) -> None:
        self.attempt(lambda: self.log.tiers.evict(warm=warm))

    @rule(data=st.data())
    def hydrate(self, data: st.DataObject) -> None:
        number = self.draw_segment(data)
        self.attempt(lambda: self.log.tiers.hydrate([number]))

    @rule()
    def repair(self) -> None:
        self.attempt(self.log.tiers.repair)

    def attempt(self, move: Callable[[], object]) -> None:
        """Refused for want of something to move, or because Tier 2 is in trouble: both are fine."""
        try:
            with contextlib.suppress(NotFound, InputError, Busy, Tier2Error):
                move()
        except DataError:
            assert self.is_damaged or self.store._planned["get"], "damage that nobody did"

    # What befalls them.

    @rule(is_down=st.booleans())
    def tier2_goes_down_or_up(self, is_down: bool) -> None:
        self.store.is_down = is_down

    @rule(
        operation=st.sampled_from(["put", "get", "head", "list"]),
        troubles=st.lists(TROUBLES, min_size=1, max_size=6),
    )
    def tier2_is_in_trouble(self, operation: str, troubles: list[Trouble]) -> None:
        self.store.plan(operation, *troubles)

    @rule(data=st.data(), is_lost=st.booleans())
    def a_warm_file_fails(self, data: st.DataObject, is_lost: bool) -> None:
        names = self.log.tiers.cold.warm_names()
        safe = self.resident(Residency.TIER0) | self.resident(Residency.TIER2)
        candidates = sorted(set(names) & safe)
        if not candidates or self.log.tiers.moves.claimed():
            return
        number = data.draw(st.sampled_from(candidates))
        path = self.log.tiers.cold.warm_path(names[number])
        self.is_damaged = True
        if is_lost:
            self.lost.add(number)
            self.world.disk.unlink(path)
        else:
            with self.world.disk.open(path, writable=True) as file:
                place = data.draw(st.integers(0, file.size() - 1))
                file.pwrite(place, bytes([file.pread(place, 1)[0] ^ 0x10]))
                file.sync()

    @precondition(lambda self: self.appended)
    @rule(crash=st.sampled_from(Crash), survivors=st.integers(0, 4))
    def crash(self, crash: Crash, survivors: int) -> None:
        self.world.restart(crash, survivors=survivors)
        self.reopen()

    @rule(is_driven=st.booleans())
    def close_and_open(self, is_driven: bool) -> None:
        self.config = BY_ITSELF if is_driven else BY_HAND
        self.manager.close()
        self.acknowledged = len(self.appended)
        self.world.restart(Crash.KILL)
        self.reopen()

    def reopen(self) -> None:
        # Where the log goes on is in the newest segment: Tier 2 must answer if that is there alone.
        calm(self.store)
        self.store._planned.clear()
        self.lost.clear()
        self.open()
        count = len(list(self.log.read()))
        assert count >= self.acknowledged, "acknowledged, and lost"
        del self.appended[count:]
        self.acknowledged = count

    # What always holds.

    @invariant()
    def all_is_read_from_some_tier(self) -> None:
        if hasattr(self, "log"):
            with untroubled(self.store):
                found = [(r.record_id, bytes(r.payload)) for r in self.log.read()]
            assert found == self.appended[: len(found)]
            assert len(found) >= self.acknowledged

    @invariant()
    def the_manifest_names_what_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.manifest is not None
        warm = set(self.log.tiers.cold.warm_names())
        files = {info.segment_id: info.path for info in self.log.segments() if info.tier == 0}
        for state in self.log.manifest.index().segments():
            if state.residency & Residency.TIER0 and state.is_sealed:
                assert self.world.disk.exists(files[state.segment_id])
            if state.residency & Residency.TIER1:
                assert state.segment_id in warm | self.lost
            if state.residency & Residency.TIER2:
                assert len(self.store.objects[state.key].data) == state.compressed_bytes
        numbers = segment_objects(self.store)
        assert len(numbers) == len(set(numbers)), "a segment has two objects"

    @invariant()
    def no_task_has_failed(self) -> None:
        if hasattr(self, "log"):
            assert not self.world.runner.failures()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.restart(Crash.KILL)

    def draw_segment(self, data: st.DataObject) -> int:
        infos = self.log.segments()
        return data.draw(st.sampled_from(infos)).segment_id if infos else 0

    def resident(self, tier: Residency) -> set[int]:
        assert self.log.manifest is not None
        return {state.segment_id for state in self.log.manifest.index().iter_residency(tier)}


@contextlib.contextmanager
def untroubled(store: FakeObjectStore) -> Iterator[None]:
    """Let Tier 2 behave for a moment."""
    is_down, planned = store.is_down, store._planned
    store.is_down, store._planned = False, defaultdict(deque)
    try:
        yield
    finally:
        store.is_down, store._planned = is_down, planned


TestTierMachine = TierMachine.TestCase
TestTierMachine.settings = settings(
    settings(), max_examples=max(100, settings().max_examples // 2), stateful_step_count=40
)
