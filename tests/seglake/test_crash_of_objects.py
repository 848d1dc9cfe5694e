"""A crash at every I/O step of what is done to objects and buckets, and of opening and upkeep.

After each the lake is as before the request that was under way or as after it, whole; and no
caller can tell that there was a crash in any other way.
"""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.seglake.model import Content, Versioning
from tests.seglake.lake_worlds import (
    CONTENT,
    PATHS,
    PLAIN,
    SUSPENDED,
    VERSIONED,
    Act,
    Machine,
    Performance,
    Play,
    Seen,
    adopt,
    check_it_goes_on,
    check_opened,
    content,
    observe,
    use_small_chunks,
)

pytestmark = pytest.mark.thorough

SMALL, LARGE = 700, 40 * KIB  # bytes: held and written with others; in chunks, and over a segment
BUCKETS = (PLAIN, VERSIONED, SUSPENDED)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_chunks(monkeypatch)


def make_buckets(machine: Machine) -> None:
    buckets = machine.lake.buckets
    buckets.create(PLAIN, versioning=Versioning.DISABLED)
    buckets.create(VERSIONED)
    buckets.create(SUSPENDED)
    machine.lake.objects.put(SUSPENDED, "k", b"before it was suspended")
    buckets.set_versioning(SUSPENDED, Versioning.SUSPENDED)


def put(bucket: str, key: str, size: int, seed: object = "first") -> Act:
    def act(machine: Machine) -> None:
        machine.lake.objects.put(bucket, key, content(size, seed), content=CONTENT)

    return act


def copy(source: str, target: str, *, key: str = "copy", new: Content | None = None) -> Act:
    return lambda machine: machine.lake.objects.copy(source, "k", target, key, content=new)


def delete(bucket: str, key: str = "k") -> Act:
    return lambda machine: machine.lake.objects.delete(bucket, key)


def delete_version(bucket: str, index: int, key: str = "k") -> Act:
    """Of the versions that are listed, newest first."""

    def act(machine: Machine) -> None:
        row, _ = machine.lake.objects.list_versions(bucket, prefix=key).items[index]
        version_id = "null" if row.is_null else row.version_id
        machine.lake.objects.delete(bucket, key, version_id=version_id)

    return act


FIRST = [make_buckets, *(put(bucket, "k", SMALL) for bucket in BUCKETS)]

PUTS = Play(
    before=FIRST,
    acts=[
        put(PLAIN, "new", SMALL),
        put(VERSIONED, "empty", 0),
        put(PLAIN, "large", LARGE),
        put(PLAIN, "large", LARGE, "second"),
        put(VERSIONED, "large", LARGE, "third"),
    ],
)
OVERWRITES = Play(
    before=FIRST,
    acts=[
        *(put(bucket, "k", SMALL, "second") for bucket in BUCKETS),
        *(put(bucket, "k", SMALL, "third") for bucket in BUCKETS),
    ],
)
COPIES = Play(
    before=[*FIRST, put(PLAIN, "k", LARGE)],
    acts=[
        copy(PLAIN, VERSIONED),
        copy(VERSIONED, PLAIN),
        copy(PLAIN, PLAIN, key="k", new=Content(content_type="image/png")),
        copy(PLAIN, SUSPENDED, key="k"),
    ],
)
DELETES = Play(
    before=[*FIRST, put(VERSIONED, "k", SMALL, "second")],
    acts=[
        *(delete(bucket) for bucket in BUCKETS),
        delete_version(VERSIONED, 0),  # the marker: the object is back
        delete_version(VERSIONED, 0),
        delete_version(SUSPENDED, 1),  # behind the null marker
        delete_version(SUSPENDED, 0),
        delete_version(VERSIONED, 0),
    ],
)
BUCKET_CHANGES = Play(
    before=FIRST,
    acts=[
        lambda machine: machine.lake.buckets.create("another"),
        put("another", "k", SMALL),
        lambda machine: machine.lake.buckets.set_versioning(VERSIONED, Versioning.SUSPENDED),
        put(VERSIONED, "k", SMALL, "null"),
        delete("another"),
        delete_version("another", 1),
        lambda machine: machine.lake.buckets.delete("another"),  # with a marker in it
        lambda machine: machine.lake.buckets.set_versioning(VERSIONED, Versioning.ENABLED),
    ],
)
UPKEEP = Play(
    before=FIRST,
    acts=[
        put(VERSIONED, "k", SMALL, "second"),
        Machine.pass_time,
        put(PLAIN, "k", LARGE, "second"),
        delete_version(VERSIONED, 1),
        Machine.pass_time,
        delete(PLAIN),
        put(SUSPENDED, "k", SMALL, "second"),
        Machine.pass_time,
    ],
)
MANY_FILES = Play(
    before=[
        make_buckets,
        lambda machine: machine.lake.buckets.create("another"),
        *(delete("another", f"{number}") for number in range(18)),
    ],
    acts=[
        put(PLAIN, "k", SMALL),
        lambda machine: machine.lake.buckets.delete("another"),  # and so many manifest files
        Machine.pass_time,
    ],
)
PLAYS = {
    "puts": PUTS,
    "overwrites": OVERWRITES,
    "copies": COPIES,
    "deletes": DELETES,
    "buckets": BUCKET_CHANGES,
    "upkeep": UPKEEP,
    "many files": MANY_FILES,
}
every_play = pytest.mark.parametrize("play", PLAYS.values(), ids=PLAYS)
SOME_OF_ALL = Play(
    before=FIRST,
    acts=[
        put(PLAIN, "k", LARGE, "second"),
        put(VERSIONED, "k", SMALL, "second"),
        copy(PLAIN, SUSPENDED, key="k"),
        Machine.pass_time,
        delete(VERSIONED),
        delete_version(VERSIONED, 1),
        delete(PLAIN),
    ],
)


def test_after_some_crashes_each_request_happened_whole_or_not_at_all() -> None:
    assert SOME_OF_ALL.sweep(seeds=[1], survivors=[0, 2], cases_max=16) == 16


@pytest.mark.sweep
@every_play
def test_after_a_crash_at_any_step_each_request_happened_whole_or_not_at_all(play: Play) -> None:
    assert play.sweep(seeds=[2], survivors=range(4), cases_max=100) == 100


@pytest.mark.slow
@every_play
def test_after_a_crash_at_any_step_in_a_long_sweep(play: Play) -> None:
    play.sweep(seeds=[10], survivors=range(6), cases_max=100_000)


class Reopening:
    """The opening after a crash is itself cut short: `allowed` is what may be seen then."""

    def __init__(self, start: World, allowed: list[Seen]) -> None:
        self._start = start
        self._allowed = allowed

    def run(self, world: World) -> None:
        adopt(world, self._start)
        with Machine(world, "opened once") as machine:
            machine.open()
            self._allowed = [observe(machine)]

    def check(self, world: World) -> None:
        with Machine(world, "opened twice") as machine:
            machine.open()
            check_opened(machine)
            assert observe(machine) in self._allowed
            check_it_goes_on(machine)


def sweep_reopening(play: Play, *, seed: int, crashes: int, cases_max: int) -> None:
    """From each of so many crashes of the play."""
    play.seen(seed)
    whole = World(seed)
    Performance(play).run(whole)
    for number in range(crashes):
        world, performance = World(seed), Performance(play)
        world.disk.faults.crash_at_step = (2 * number + 1) * whole.disk.steps // (2 * crashes)
        with contextlib.suppress(SimulatedCrash):
            performance.run(world)
        world.restart(list(Crash)[number % 2], survivors=number)
        make = partial(Reopening, world, performance.allowed(seed))
        sweep(make, seeds=[seed], survivors=[0, 3], cases_max=cases_max)


def test_a_crash_of_the_opening_is_made_up_for_by_the_next() -> None:
    sweep_reopening(SOME_OF_ALL, seed=1, crashes=3, cases_max=4)


@pytest.mark.sweep
@pytest.mark.parametrize("play", [PUTS, UPKEEP], ids=["puts", "upkeep"])
def test_a_crash_at_any_step_of_the_opening_is_made_up_for_by_the_next(play: Play) -> None:
    sweep_reopening(play, seed=3, crashes=5, cases_max=20)


@pytest.mark.slow
@every_play
def test_a_crash_at_any_step_of_many_openings(play: Play) -> None:
    sweep_reopening(play, seed=20, crashes=40, cases_max=1000)


class Together:
    """Callers who put at once: their requests share writes, syncs and transactions."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, bytes] = {}  # of each caller's own key
        self.under_way: dict[str, bytes] = {}
        self.versions: dict[str, bytes] = {}  # of the key they share, by id
        self.begun: set[bytes] = set()

    def run(self, world: World) -> None:
        adopt(world, PUTS.start(world.seed))
        with Machine(world, "together") as machine, machine.open():
            calls = [
                world.runner.call(f"caller {number}", partial(self.write, machine, number))
                for number in range(5)
            ]
            world.runner.run()
            assert [call.error for call in calls] == [None] * 5

    def write(self, machine: Machine, number: int) -> None:
        key = f"of {number}"
        for turn in range(3):
            size = LARGE if (number, turn) == (1, 1) else SMALL + number
            data = content(size, f"{number} {turn}")
            self.under_way[key] = data
            machine.lake.objects.put(PLAIN, key, data)
            self.acknowledged[key] = self.under_way.pop(key)
            shared = content(SMALL, f"shared {number} {turn}")
            self.begun.add(shared)
            info = machine.lake.objects.put(VERSIONED, "shared", shared)
            self.versions[info.version_id] = shared

    def check(self, world: World) -> None:
        with Machine(world, "after the crash") as machine:
            machine.open()
            check_opened(machine)
            seen = observe(machine)
            for key in {*self.acknowledged, *self.under_way}:
                allowed = {self.acknowledged.get(key), self.under_way.get(key, b"none")}
                assert seen.data_of(PLAIN, key) in allowed
            shared = {one.version_id: one.data for one in seen.versions if one.key == "shared"}
            assert self.versions.items() <= shared.items()
            assert set(shared.values()) <= self.begun
            check_it_goes_on(machine)


def test_callers_who_put_at_once_share_transactions() -> None:
    world = World(1)
    Together().run(world)
    commits = [line for line in world.trace if line.endswith(f"fdatasync {PATHS.database}-wal")]
    assert len(commits) < 20  # of 30 requests, and what the upkeep did


@pytest.mark.sweep
def test_after_a_crash_of_callers_who_put_at_once_each_has_what_it_was_told() -> None:
    assert sweep(Together, seeds=[1, 2], survivors=range(4), cases_max=100) == 100


@pytest.mark.slow
def test_after_a_crash_of_callers_who_put_at_once_in_a_long_sweep() -> None:
    sweep(Together, seeds=range(10, 20), survivors=range(4), cases_max=100_000)


@pytest.mark.slow
def test_after_a_crash_of_a_put_of_several_whole_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    play = Play(before=[make_buckets], acts=[put(PLAIN, "k", 9 * MIB), put(PLAIN, "k", SMALL)])
    play.sweep(seeds=[1], survivors=[0, 2], cases_max=60)
