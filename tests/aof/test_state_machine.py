"""Hypothesis drives a log against a model: appends, flushes, seals, reads, followers, crashes and
failing syncs, in any order."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import WouldBlock
from lakebed.aof.follower import Follower
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB

pytestmark = pytest.mark.sweep

CONFIG = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(reserve_bytes=0, flush_ms=10, flush_bytes=16 * KIB),
)
SMALL = st.binary(min_size=1, max_size=40)
LARGE = st.integers(5_000, 60_000).map(lambda size: (b"%d " % size).ljust(size, b"."))

Entry = tuple[RecordId, int, bytes]


class LogMachine(RuleBasedStateMachine):
    """`appended` is the model: every record in order. What the log serves is a prefix of it."""

    @initialize(seed=st.integers(0, 10_000))
    def start(self, seed: int) -> None:
        self.world = World(seed)
        self.appended: list[Entry] = []
        self.acknowledged = 0  # so many are durable for certain
        self.watermark = 0
        self.is_broken = False
        self.follower: Follower | None = None
        self.followed: list[Entry] = []
        self.manager: AofManager
        self.log: Aof
        self.open()

    def open(self) -> None:
        self.manager = AofManager(
            "/store", config=CONFIG, disk=self.world.disk, runner=self.world.runner
        )
        self.log = self.manager.open("orders")
        self.is_broken = False

    @rule(payloads=st.lists(LARGE, min_size=2, max_size=8))
    def fill_segments(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.append([payload], 0)
            self.let_time_pass(20)

    @rule(payloads=st.lists(SMALL, min_size=1, max_size=6), ext_id=st.integers(0, 2**64 - 1))
    def append(self, payloads: list[bytes], ext_id: int) -> None:
        try:
            ids = self.log.append_records(payloads, ext_ids=ext_id)
        except WouldBlock as error:
            ids = error.record_ids
        except LakebedError:
            assert self.is_broken
            return
        self.appended += [(i, ext_id, p) for i, p in zip(ids, payloads, strict=False)]

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.appended) - 1))
        try:
            self.log.flush(self.appended[index][0])
        except LakebedError:
            assert self.is_broken
            return
        self.acknowledged = max(self.acknowledged, index + 1)

    @rule()
    def seal(self) -> None:
        try:
            self.log.seal_current_segment(timeout=5)
        except LakebedError:
            assert self.is_broken
            return
        self.acknowledged = len(self.appended)

    @rule(watermark=st.integers(0, 1000))
    def set_watermark(self, watermark: int) -> None:
        self.log.set_coordinator_watermark(watermark)

    @rule(milliseconds=st.integers(0, 500))
    def let_time_pass(self, milliseconds: int) -> None:
        self.world.runner.advance(milliseconds * 1_000_000)

    @precondition(lambda self: self.appended)
    @rule(data=st.data())
    def read_one(self, data: st.DataObject) -> None:
        record_id, ext_id, payload = data.draw(st.sampled_from(self.appended))
        try:
            record = self.log.get(record_id)
        except NotFound:
            assert record_id >= self.log.durable_end()
            return
        assert (record.ext_id, record.payload) == (ext_id, payload)

    @rule()
    def read_backward(self) -> None:
        served = self.served()
        assert [(r.record_id, r.ext_id, r.payload) for r in self.log.read_backward()] == served[
            ::-1
        ]

    @rule()
    def follow(self) -> None:
        if self.follower is None:
            self.follower = self.log.follow()
            self.followed = []
        while (batch := self.follower.next_batch(timeout=0)) is not None:
            self.followed += [(r.record_id, r.ext_id, r.payload) for r in batch]
        assert self.followed == self.served()

    @precondition(lambda self: len(self.appended) > 3)
    @rule(crash=st.sampled_from(Crash), survivors=st.integers(0, 6))
    def crash(self, crash: Crash, survivors: int) -> None:
        self.restart(crash, survivors)

    @precondition(lambda self: len(self.appended) > 3)
    @rule(step=st.integers(0, 60), crash=st.sampled_from(Crash), survivors=st.integers(0, 6))
    def crash_in_recovery(self, step: int, crash: Crash, survivors: int) -> None:
        self.follower = None
        self.world.restart(crash, survivors=survivors)
        twin = self.world.copy()
        twin.disk.faults.crash_at_step = step
        self.world = twin
        try:
            self.open()
        except BaseException as error:
            if type(error).__name__ != "SimulatedCrash":
                raise
        self.restart(crash, survivors)

    @rule(
        nth=st.integers(1, 4),
        after=st.sampled_from(AfterFailedSync),
        operation=st.sampled_from(["fdatasync", "pwrite", "rename"]),
    )
    def let_the_disk_fail(self, nth: int, after: AfterFailedSync, operation: str) -> None:
        self.world.disk.faults.fail(operation, nth=nth, after=after)
        self.is_broken = True

    @rule()
    def close_and_open(self) -> None:
        self.follower = None
        try:
            self.manager.close()
        except LakebedError:
            assert self.is_broken
            self.restart(Crash.KILL, 0)
            return
        if self.is_broken:
            self.restart(Crash.KILL, 0)
            return
        self.acknowledged = len(self.appended)
        self.open()
        self.settle()

    def restart(self, crash: Crash, survivors: int) -> None:
        self.follower = None
        self.world.restart(crash, survivors=survivors)
        self.open()
        self.settle()

    def settle(self) -> None:
        """After an opening: what is there is what there will be."""
        served = self.served()
        assert len(served) >= self.acknowledged, "acknowledged, and lost"
        self.appended = self.appended[: len(served)]
        self.acknowledged = len(served)

    def served(self) -> list[Entry]:
        return [(r.record_id, r.ext_id, r.payload) for r in self.log.read()]

    @invariant()
    def what_is_served_is_a_prefix(self) -> None:
        if hasattr(self, "log"):
            served = self.served()
            assert served == self.appended[: len(served)]
            assert len(served) >= self.acknowledged


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    settings(), max_examples=max(60, settings().max_examples // 4), stateful_step_count=30
)
