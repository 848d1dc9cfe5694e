"""SQLite on the simulated disk: a crash at every I/O step, failed syncs, a full disk.

Each transaction adds two objects, so that half of one would show. After each crash or failure:
what was acknowledged is there; what was not is there whole or not at all; the file is sound; and
what is shown was durable before it was shown.
"""

from __future__ import annotations

import contextlib
import errno
from functools import partial

import apsw
import pytest

from lakebed.base.errors import DiskError, LakebedError, NoSpace, TooManyFiles
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.writer import Writer
from tests.seglake.meta.samples import BUCKET, bucket, put, version

pytestmark = pytest.mark.sweep

PATH = "/lake/meta.db"


def open_database(world: World, databases: SimulatedDatabases) -> Database:
    if not world.disk.exists("/lake"):
        world.disk.make_folder("/lake")
    world.disk.sync_folder("/")
    return Database(
        PATH, disk=world.disk, runner=world.runner, readers_max=2, connector=databases.connect
    )


def add_pair(number: int, writer: Writer) -> None:
    if writer.bucket(BUCKET) is None:
        writer.add_bucket(bucket())
    for side in ("left", "right"):
        put(version(f"{number:04d}/{side}", number * 2 + (side == "right")))(writer)


def pairs(database: Database) -> set[int]:
    """The transactions that are there; each must be whole."""
    with database.snapshot() as reader:
        rows = list(reader.current_from(BUCKET, start=b"", end=b"\xff"))
        for row in rows:
            found = reader.current_manifest(BUCKET, row.key)
            assert found is not None
            assert found[0] == row == reader.version(BUCKET, row.key, row.version_id)
        assert reader.problems() == []
    numbers = [int(row.key[:4]) for row in rows]
    assert all(numbers.count(number) == 2 for number in numbers), numbers
    return set(numbers)


def writing_connection(database: Database) -> apsw.Connection:
    [found] = database.write([lambda writer: writer.connection])
    assert isinstance(found, apsw.Connection)
    return found


class Life:
    """Three who write, read and checkpoint, and a close; the ledger has what was acknowledged."""

    def __init__(self) -> None:
        self.begun: set[int] = set()
        self.acknowledged: set[int] = set()

    def run(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        with contextlib.closing(databases):
            database = open_database(world, databases)
            for first in (1, 2, 3):
                numbers = range(first, 12, 3)
                world.runner.call(f"writer {first}", partial(self.write, database, numbers))
            world.runner.call("checkpoints", partial(self.checkpoint, database))
            world.runner.run()
            database.close()

    def write(self, database: Database, numbers: range) -> None:
        for number in numbers:
            self.begun.add(number)
            [result] = database.write([partial(add_pair, number)])
            assert result is None
            self.acknowledged.add(number)
            with database.snapshot() as reader:
                assert reader.current(BUCKET, f"{number:04d}/left") is not None

    def checkpoint(self, database: Database) -> None:
        for _ in range(3):
            database.checkpoint()

    def check(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        with contextlib.closing(databases):
            with open_database(world, databases) as database:
                shown = pairs(database)
                assert self.acknowledged <= shown <= self.begun
                database.write([partial(add_pair, 100)])
            world.restart(Crash.POWER)
            with open_database(world, databases) as database:
                assert pairs(database) == shown | {100}


def test_after_a_crash_at_any_step_each_transaction_is_whole_or_absent() -> None:
    assert sweep(Life, seeds=range(2), survivors=range(4), cases_max=120) == 120


class ShownBeforeAPowerCut(Life):
    """The process dies; the next one reads, and then the machine loses power."""

    def check(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        with contextlib.closing(databases):
            shown = pairs(open_database(world, databases))
            world.restart(Crash.POWER)
            with open_database(world, databases) as database:
                assert self.acknowledged <= pairs(database)
                assert pairs(database) == shown


def test_what_is_shown_after_a_crash_is_not_lost_by_the_next() -> None:
    assert sweep(ShownBeforeAPowerCut, seeds=[5], survivors=(2, 3), cases_max=60) == 60


class FailedSync(Life):
    """A sync fails on the way, the third of the writers'; then the machine crashes somewhere."""

    def run(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        with contextlib.closing(databases):
            database = open_database(world, databases)
            world.disk.faults.fail("fdatasync", nth=3)
            for number in range(1, 7):
                self.begun.add(number)
                with contextlib.suppress(DiskError):
                    database.write([partial(add_pair, number)])
                    self.acknowledged.add(number)
            database.close()


def test_a_crash_after_a_failed_sync_loses_nothing_that_was_acknowledged() -> None:
    assert sweep(FailedSync, seeds=[7], survivors=(0, 2, 3), cases_max=120) == 120


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_failed_sync_of_the_folder_is_not_overlooked(nth: int) -> None:
    world = World(nth)
    databases = SimulatedDatabases(world.disk)
    with contextlib.closing(databases):
        world.disk.make_folder("/lake")
        world.disk.sync_folder("/")
        world.disk.faults.fail("fsync", nth=nth)
        try:
            database = open_database(world, databases)
        except DiskError:
            database = open_database(world, databases)
        database.write([partial(add_pair, 1)])
        world.restart(Crash.POWER)
        with open_database(world, databases) as database:
            assert pairs(database) == {1}


@pytest.mark.parametrize("after", AfterFailedSync)
@pytest.mark.parametrize("crash", Crash)
@pytest.mark.parametrize("nth", range(1, 9))
def test_a_failed_sync_acknowledges_nothing_and_harms_nothing_later(
    nth: int, crash: Crash, after: AfterFailedSync
) -> None:
    world = World(nth)
    databases = SimulatedDatabases(world.disk)
    acknowledged, begun = set(), set()
    with contextlib.closing(databases):
        database = open_database(world, databases)
        world.disk.faults.fail("fdatasync", nth=nth, after=after)
        failures = 0
        for number in range(1, 7):
            begun.add(number)
            try:
                database.write([partial(add_pair, number)])
                acknowledged.add(number)
                assert acknowledged <= pairs(database) <= begun
                if not failures:  # after it the log alone has what was acknowledged
                    database.checkpoint()
            except DiskError:
                failures += 1
                assert acknowledged <= pairs(database) <= begun
        assert failures == 1
        shown = pairs(database)
        world.restart(crash)
        with open_database(world, databases) as database:
            assert acknowledged <= pairs(database)
            assert pairs(database) == shown


@pytest.mark.parametrize("operation", ["fdatasync", "pwrite", "pread", "fsync", "truncate"])
@pytest.mark.parametrize("nth", range(1, 12))
def test_any_operation_may_fail_and_it_goes_on_or_is_opened_again(operation: str, nth: int) -> None:
    world = World(nth)
    databases = SimulatedDatabases(world.disk)
    acknowledged: set[int] = set()
    with contextlib.closing(databases):
        world.disk.make_folder("/lake")
        world.disk.sync_folder("/")
        world.disk.faults.fail(operation, nth=nth)
        try:
            database = open_database(world, databases)
        except LakebedError:
            database = open_database(world, databases)
        for number in range(1, 5):
            with contextlib.suppress(LakebedError):
                database.write([partial(add_pair, number)])
                acknowledged.add(number)
            with contextlib.suppress(LakebedError):
                pairs(database)
            with contextlib.suppress(LakebedError):
                database.checkpoint()
        assert len(acknowledged) >= 3
        assert acknowledged <= pairs(database)
        world.restart(Crash.POWER)
        with open_database(world, databases) as database:
            assert acknowledged <= pairs(database)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_database_that_cannot_be_opened_for_a_reader_is_not_a_missing_one(code: int) -> None:
    world = World(1)
    databases = SimulatedDatabases(world.disk)
    with contextlib.closing(databases), open_database(world, databases) as database:
        database.write([partial(add_pair, 1)])
        failing = ("open", "list") if code == errno.EMFILE else ("open",)
        world.disk.faults.lasting.update(dict.fromkeys(failing, code))
        with pytest.raises(TooManyFiles if code == errno.EMFILE else DiskError):
            pairs(database)
        world.disk.faults.lasting.clear()
        assert pairs(database) == {1}


def test_a_full_disk_fails_the_write_and_the_next_one_works() -> None:
    world = World(1)
    databases = SimulatedDatabases(world.disk)
    with contextlib.closing(databases):
        database = open_database(world, databases)
        database.write([partial(add_pair, 1)])
        world.disk.faults.fail("pwrite", code=errno.ENOSPC)
        with pytest.raises(NoSpace):
            database.write([partial(add_pair, 2), partial(add_pair, 3)])
        assert pairs(database) == {1}
        database.write([partial(add_pair, 4)])
        assert pairs(database) == {1, 4}
        world.restart(Crash.POWER)
        with open_database(world, databases) as database:
            assert pairs(database) == {1, 4}


def test_a_reader_under_way_ends_as_usual_when_the_writer_failed() -> None:
    world = World(1)
    databases = SimulatedDatabases(world.disk)
    with contextlib.closing(databases), open_database(world, databases) as database:
        database.write([partial(add_pair, 1)])
        old = writing_connection(database)
        with database.snapshot() as reader:
            before = [row.key for row in reader.current_from(BUCKET, start=b"", end=b"\xff")]
            world.disk.faults.fail("fdatasync")
            with pytest.raises(DiskError):
                database.write([partial(add_pair, 2)])
            after = [row.key for row in reader.current_from(BUCKET, start=b"", end=b"\xff")]
            assert before == after
        database.write([partial(add_pair, 3)])
        assert {1, 3} <= pairs(database)
        with pytest.raises(apsw.ConnectionClosedError):
            old.execute("SELECT 1")
