"""Disks that fail now and then: whoever was covered by it is told so, and all others go on.

A request whose segment could not be made durable did not happen. One whose COMMIT failed happened
or not, and stays whichever it is. Nothing is ever half there, and the next request works.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from typing import NamedTuple

import pytest

from lakebed.base.errors import DiskError, LakebedError, NoSpace
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync, Faults
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.seglake.model import State, Versioning
from lakebed.seglake.multipart import NamedPart
from tests.seglake.lake_worlds import (
    PATHS,
    PLAIN,
    ROOT,
    Machine,
    adopt,
    check_it_goes_on,
    check_opened,
    content,
    observe,
    use_small_chunks,
)

pytestmark = pytest.mark.thorough

SMALL, LARGE = 700, 40 * KIB


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_chunks(monkeypatch)


class Caller:
    """Asks, and keeps for every key what may be there: None is nothing."""

    def __init__(self, machine: Machine) -> None:
        self.failures: list[tuple[str, LakebedError]] = []  # by key
        self._machine = machine
        self._allowed: dict[str, set[bytes | None]] = {"stays": {content(SMALL, "old")}}

    def ask(self, key: str, data: bytes | None, request: Callable[[], object]) -> None:
        """A request that makes `data` the object."""
        before = self._allowed.get(key, {None})
        try:
            request()
        except LakebedError as error:
            self.failures.append((key, error))
            self._allowed[key] = before if has_no_effect(error) else before | {data}
        else:
            self._allowed[key] = {data}

    def put(self, key: str, size: int, seed: object = 0) -> None:
        data = content(size, f"{key} {seed}")
        self.ask(key, data, lambda: self._machine.lake.objects.put(PLAIN, key, data))

    def copy(self, source: str, key: str) -> None:
        [data] = self._allowed[source]
        self.ask(key, data, lambda: self._machine.lake.objects.copy(PLAIN, source, PLAIN, key))

    def delete(self, key: str) -> None:
        self.ask(key, None, lambda: self._machine.lake.objects.delete(PLAIN, key))

    def upload(self, key: str) -> None:
        uploads = self._machine.lake.uploads
        parts = [content(SMALL, "one"), content(LARGE, "two")]

        def request() -> None:
            upload_id = uploads.create(PLAIN, key).upload_id
            done = [
                uploads.put_part(PLAIN, key, upload_id, number, part)
                for number, part in enumerate(parts, start=1)
            ]
            named = [NamedPart(part.number, part.etag) for part in done]
            uploads.complete(PLAIN, key, upload_id, named)

        self.ask(key, b"".join(parts), request)

    def check(self) -> None:
        """What is there may be there; from now on it must stay."""
        seen = observe(self._machine)
        for key, allowed in self._allowed.items():
            found = seen.data_of(PLAIN, key)
            assert found in allowed, key
            self._allowed[key] = {found}


def has_no_effect(error: LakebedError) -> bool:
    """Only what failed at the metadata may have happened all the same."""
    if isinstance(error, NoSpace):
        return True
    assert isinstance(error, DiskError)
    return str(error.path).startswith(PATHS.segments)


REQUESTS: list[Callable[[Caller], None]] = [
    lambda caller: caller.put("stays", SMALL),
    lambda caller: caller.put("large", LARGE),
    lambda caller: caller.put("changes", SMALL),
    lambda caller: caller.copy("stays", "changes"),
    lambda caller: caller.upload("parts"),
    lambda caller: caller.put("changes", SMALL, "again"),
    lambda caller: caller.delete("changes"),
    lambda caller: caller.put("late", LARGE),
]


@cache
def start() -> World:
    world = World(1)
    with Machine(world, "before") as machine, machine.open() as lake:
        lake.buckets.create(PLAIN, versioning=Versioning.DISABLED)
        lake.objects.put(PLAIN, "stays", content(SMALL, "old"))
    return world


class Operation(NamedTuple):
    """Something that is done to the disk, and by which request; None: by nobody's."""

    name: str
    nth: int  # of that name
    path: str
    request: int | None


@cache
def operations() -> list[Operation]:
    """All of them, if nothing fails. Between two requests the upkeep has its turn."""
    world = World(1)
    adopt(world, start())
    spans: list[tuple[int, int]] = []
    with Machine(world, "asked") as machine, machine.open():
        caller = Caller(machine)
        for request in REQUESTS:
            before = len(world.trace)
            request(caller)
            spans.append((before, len(world.trace)))
            machine.pass_time()
    assert caller.failures == []
    counters: dict[str, count[int]] = {}
    found = []
    for place, line in enumerate(world.trace):
        step, name, path = [*line.split(" ", 2), "", ""][:3]
        if step.isdigit():
            nth = next(counters.setdefault(name, count(1)))
            asked = [i for i, (begin, end) in enumerate(spans) if begin <= place < end]
            # SQLite syncs the folder with a new WAL and does not mind if it fails: the opening did.
            is_known = (name, path) == ("fsync", ROOT)
            found.append(Operation(name, nth, path, asked[0] if asked and not is_known else None))
    return found


def matching(name: str, every: int = 1) -> Iterator[Operation]:
    found = [one for one in operations() if one.name == name]
    assert found, name
    yield from found[::every]


def run_with_fault(
    fault: Operation, *, code: int = errno.EIO, after: AfterFailedSync = AfterFailedSync.KEPT
) -> list[LakebedError]:
    """One operation fails; what the requests were told. All else is checked here."""
    world = World(1)
    adopt(world, start())
    world.disk.faults.fail(fault.name, nth=fault.nth, code=code, after=after)
    with Machine(world, "asked") as machine:
        try:
            machine.open()
        except LakebedError:
            machine.open()
        caller = Caller(machine)
        for number, request in enumerate(REQUESTS):
            request(caller)
            expected = 1 if fault.request is not None and number >= fault.request else 0
            assert len(caller.failures) == expected, "another request failed, or none did"
            if number == fault.request:
                caller.check()
            machine.pass_time()
        if fault.nth % 2:
            with contextlib.suppress(LakebedError):  # what could not be written down is told
                machine.lake.close()
        world.restart(list(Crash)[fault.nth // 2 % 2], survivors=fault.nth % 5)
        machine.open()
        check_opened(machine)
        caller.check()
        check_it_goes_on(machine)
    return [error for _, error in caller.failures]


def check_syncs(name: str, after: AfterFailedSync, *, every: int) -> None:
    failed = 0
    for fault in matching(name, every):
        errors = run_with_fault(fault, after=after)
        assert all(isinstance(error, DiskError) for error in errors)
        failed += len(errors)
    assert failed > 0


def test_a_failed_sync_fails_the_request_it_covered_and_no_other() -> None:
    check_syncs("fdatasync", AfterFailedSync.KEPT, every=8)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["fdatasync", "fsync"])
@pytest.mark.parametrize("after", AfterFailedSync)
def test_each_sync_in_turn_fails_the_request_it_covered_and_no_other(
    name: str, after: AfterFailedSync
) -> None:
    if name == "fdatasync" or after is AfterFailedSync.KEPT:
        check_syncs(name, after, every=1 if name == "fsync" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("after", AfterFailedSync)
def test_really_each_sync_fails_the_request_it_covered_and_no_other(
    after: AfterFailedSync,
) -> None:
    check_syncs("fdatasync", after, every=1)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["pwrite", "create", "truncate", "unlink", "mkdir"])
def test_each_operation_in_turn_fails_the_request_it_covered_and_no_other(name: str) -> None:
    for fault in matching(name, 5 if name == "pwrite" else 1):
        run_with_fault(fault)


@pytest.mark.sweep
@pytest.mark.parametrize("after", AfterFailedSync)
def test_what_is_seen_after_a_failed_commit_outlives_a_power_cut(after: AfterFailedSync) -> None:
    faults = [one for one in matching("fdatasync") if one.request is not None]
    for fault in faults:
        world = World(1)
        adopt(world, start())
        world.disk.faults.fail(fault.name, nth=fault.nth, after=after)
        with Machine(world, "asked") as machine:
            machine.open()
            caller = Caller(machine)
            for request in REQUESTS[: (fault.request or 0) + 1]:
                request(caller)
                if not caller.failures:
                    machine.pass_time()
            caller.check()
            world.restart(Crash.POWER)
            machine.open()
            check_opened(machine)
            caller.check()


def check_full_disk(*, every: int) -> None:
    failed = 0
    for fault in matching("pwrite", every):
        errors = run_with_fault(fault, code=errno.ENOSPC)
        assert all(isinstance(error, NoSpace) for error in errors)
        failed += len(errors)
    assert failed > 0


def test_a_write_that_finds_the_disk_full_changes_nothing() -> None:
    check_full_disk(every=40)


@pytest.mark.sweep
def test_every_third_write_that_finds_the_disk_full_changes_nothing() -> None:
    check_full_disk(every=3)


@pytest.mark.slow
def test_each_write_in_turn_that_finds_the_disk_full_changes_nothing() -> None:
    check_full_disk(every=1)


def callers_at_once(machine: Machine) -> list[Caller]:
    """Five, with keys of their own, whose requests share syncs and transactions."""

    def ask(number: int, caller: Caller) -> None:
        for turn in range(4):
            caller.put(f"{number}", SMALL + number, turn)
            caller.put(f"{number} {turn}", LARGE if (number, turn) == (1, 1) else SMALL)

    callers = [Caller(machine) for _ in range(5)]
    runner = machine.world.runner
    calls = [
        runner.call(f"caller {number}", partial(ask, number, caller))
        for number, caller in enumerate(callers)
    ]
    runner.run()
    assert [call.error for call in calls] == [None] * 5
    return callers


def check_callers_at_once(*, name: str, nth: int, after: AfterFailedSync) -> int:
    """How many were told of the failure."""
    world = World(nth)
    adopt(world, start())
    with Machine(world, "asked") as machine:
        machine.open()
        world.disk.faults.fail(name, nth=nth, after=after)
        callers = callers_at_once(machine)
        for caller in callers:
            assert len(caller.failures) <= 1, "each waits for one request at a time"
            assert all(isinstance(error, DiskError) for _, error in caller.failures)
            caller.check()
        world.restart(list(Crash)[nth % 2], survivors=nth % 5)
        machine.open()
        check_opened(machine)
        for caller in callers:
            caller.check()
    return sum(len(caller.failures) for caller in callers)


def test_a_failed_sync_fails_all_whom_it_covered() -> None:
    told = [
        check_callers_at_once(name="fdatasync", nth=nth, after=AfterFailedSync.KEPT)
        for nth in range(2, 6)
    ]
    assert min(told) >= 1
    assert max(told) > 1


@pytest.mark.sweep
@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("name", ["fdatasync", "fsync", "pwrite"])
def test_each_failure_fails_all_whom_it_covered(name: str, after: AfterFailedSync) -> None:
    for nth in range(1, 25):
        check_callers_at_once(name=name, nth=nth, after=after)


def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_space() -> None:
    world = World(1)
    adopt(world, start())
    with Machine(world, "asked") as machine:
        machine.open()
        caller = Caller(machine)
        plenty, world.disk.capacity_bytes = (
            world.disk.capacity_bytes,
            world.disk.used_bytes() + 200 * KIB,
        )
        for number in range(8):
            caller.put(f"small {number}", SMALL)
            caller.put(f"large {number}", LARGE)
            machine.pass_time()
        told = [error for _, error in caller.failures]
        assert len(told) > 4
        assert all(isinstance(error, NoSpace) for error in told)
        caller.check()
        world.disk.capacity_bytes = plenty
        for number in range(8):
            caller.put(f"small {number}", SMALL, "again")
            caller.put(f"large {number}", LARGE, "again")
        assert len(caller.failures) == len(told)
        caller.check()
        world.restart(Crash.POWER)
        machine.open()
        check_opened(machine)
        caller.check()


def test_a_store_that_was_left_full_opens_and_seals_when_there_is_space() -> None:
    world = World(1)
    adopt(world, start())
    with Machine(world, "asked") as machine:
        machine.open()
        caller = Caller(machine)
        caller.put("small", SMALL)
        plenty, world.disk.capacity_bytes = world.disk.capacity_bytes, world.disk.used_bytes()
        world.restart(Crash.KILL)
        with contextlib.suppress(NoSpace):
            machine.open()
            caller.check()
        world.disk.capacity_bytes = plenty
        world.restart(Crash.POWER)
        machine.open()
        check_opened(machine)
        caller.check()


def test_below_the_reserve_requests_are_refused_and_reads_go_on() -> None:
    world = World(1)
    adopt(world, start())
    with Machine(world, "asked") as machine:
        machine.open(reserve_bytes=100 * KIB)
        caller = Caller(machine)
        plenty = world.disk.capacity_bytes
        world.disk.capacity_bytes = world.disk.used_bytes() + 120 * KIB
        for number in range(40):
            caller.put(f"{number}", SMALL)
        assert caller.failures
        assert all(isinstance(error, NoSpace) for _, error in caller.failures)
        caller.check()
        world.disk.capacity_bytes = plenty
        before = len(caller.failures)
        caller.put("later", SMALL)
        assert len(caller.failures) == before
        machine.lake.close()


def test_a_read_that_fails_is_told_and_damages_nothing() -> None:
    world = World(1)
    adopt(world, start())
    with Machine(world, "asked") as machine, machine.open() as lake:
        told = 0
        for name in ("pread", "open"):
            for nth in range(1, 30):
                world.disk.faults.fail(name, nth=nth)
                for _ in range(2):
                    try:
                        data = lake.objects.get(PLAIN, "stays").read()
                        assert data == content(SMALL, "old")
                    except DiskError:
                        told += 1
                world.disk.faults = Faults()
                assert lake.objects.get(PLAIN, "stays").read() == content(SMALL, "old")
        assert told > 0
        assert lake.objects.head(PLAIN, "stays").state is State.ACTIVE
