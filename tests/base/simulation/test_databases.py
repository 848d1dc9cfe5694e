"""SQLite on the simulated disk: what it acknowledged survives, and old lives do no harm."""

from __future__ import annotations

import errno
import gc
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.base.simulation.scheduler import SimulatedCrash
from lakebed.base.simulation.sweep import CaseFailed, sweep
from lakebed.base.simulation.world import World

PATH = "/meta.db"
TRUNCATE = apsw.SQLITE_CHECKPOINT_TRUNCATE


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the scratch folders are, so that what is left of them can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class Machine:
    """A world, and the databases of its disk."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.disk = self.world.disk
        self.databases = SimulatedDatabases(self.disk)

    def open(self, *, synchronous: str = "full") -> apsw.Connection:
        return opened(self.databases, synchronous=synchronous)

    def restart(self, crash: Crash = Crash.KILL, *, survivors: int = 0) -> None:
        self.world.restart(crash, survivors=survivors)

    def crash_at_once(self) -> None:
        self.disk.faults.crash_at_step = self.disk.steps


def opened(databases: SimulatedDatabases, *, synchronous: str = "full") -> apsw.Connection:
    connection = databases.connect(PATH)
    assert connection.pragma("journal_mode", "wal") == "wal"
    connection.pragma("synchronous", synchronous)
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("CREATE TABLE IF NOT EXISTS rows (batch INTEGER, body BLOB)")
    return connection


def add(connection: apsw.Connection, batch: int, *, row_count: int = 3) -> None:
    """One transaction, of several statements and several pages."""
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(row_count):
        connection.execute("INSERT INTO rows VALUES (?, ?)", (batch, bytes(2000)))
    connection.execute("COMMIT")


def batches(connection: apsw.Connection) -> dict[int, int]:
    """How many rows there are of each transaction."""
    return dict(connection.execute("SELECT batch, count(*) FROM rows GROUP BY batch"))


def code_of(error: apsw.Error) -> int:
    """SQLite's extended result code, which the type stubs do not know of."""
    return int(vars(error)["extendedresult"])


class Commits:
    """One commits while another reads; then a checkpoint, more commits, and both close."""

    synchronous = "full"

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def run(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        writer = opened(databases, synchronous=self.synchronous)
        reader = databases.connect(PATH)
        world.runner.call("writer", partial(self.write, writer, range(3)))
        world.runner.call("reader", partial(self.read, reader))
        world.runner.run()
        writer.wal_checkpoint(mode=TRUNCATE)
        self.write(writer, range(3, 5))
        reader.close()
        writer.close()

    def write(self, writer: apsw.Connection, numbers: range) -> None:
        for number in numbers:
            add(writer, number)
            self.acknowledged.append(number)

    def read(self, reader: apsw.Connection) -> None:
        for _ in range(3):
            before = list(self.acknowledged)
            reader.execute("BEGIN")
            seen = batches(reader)
            assert set(seen) >= set(before)
            assert set(seen.values()) <= {3}
            assert batches(reader) == seen
            reader.execute("COMMIT")

    def check(self, world: World) -> None:
        databases = SimulatedDatabases(world.disk)
        connection = opened(databases)
        assert connection.pragma("integrity_check") == "ok"
        found = batches(connection)
        assert list(found)[: len(self.acknowledged)] == self.acknowledged
        assert len(found) <= len(self.acknowledged) + 1
        assert set(found.values()) <= {3}
        add(connection, 99)
        connection.close()
        assert batches(databases.connect(PATH)) == {**found, 99: 3}


class Unsynced(Commits):
    """SQLite told not to sync: a power loss must be seen to lose what was acknowledged."""

    synchronous = "off"


class FolderNeverSynced(Commits):
    """Every sync of the folder fails, which SQLite takes no notice of."""

    def run(self, world: World) -> None:
        for number in range(1, 20):
            world.disk.faults.fail("fsync", nth=number)
        super().run(world)


@pytest.mark.sweep
def test_a_crash_at_any_step_keeps_what_was_committed(scratch: Path) -> None:
    assert sweep(Commits, seeds=range(2), cases_max=400) == 400
    gc.collect()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("careless", [Unsynced, FolderNeverSynced])
def test_the_sweep_finds_a_missing_sync(careless: type[Commits]) -> None:
    with pytest.raises(CaseFailed, match="power"):
        sweep(careless, seeds=[1], survivors=[0])


def test_the_same_seed_gives_the_same_run() -> None:
    def trace(seed: int) -> list[str]:
        world = World(seed)
        Commits().run(world)
        return world.trace

    assert trace(5) == trace(5)
    assert trace(5) != trace(6)


def test_the_bytes_are_on_the_simulated_disk_alone(scratch: Path) -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    assert machine.disk.names("/") == ["meta.db", "meta.db-wal"]
    assert machine.disk.open("/meta.db-wal").size() > 3 * 2000
    files = [path for path in scratch.rglob("*") if path.is_file()]
    assert {path.suffix for path in files if path.stat().st_size} == {".db-shm"}
    connection.wal_checkpoint(mode=TRUNCATE)
    assert machine.disk.open("/meta.db-wal").size() == 0
    assert machine.disk.open(PATH).pread(0, 15) == b"SQLite format 3"
    connection.close()
    assert machine.disk.names("/") == ["meta.db"]


@pytest.mark.parametrize("after", list(AfterFailedSync))
def test_a_failed_sync_of_the_wal_fails_the_commit(after: AfterFailedSync) -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    machine.disk.faults.fail("fdatasync", after=after)
    with pytest.raises(apsw.IOError) as caught:
        add(connection, 2)
    assert code_of(caught.value) == apsw.SQLITE_IOERR_FSYNC
    assert batches(machine.databases.connect(PATH)) == {1: 3}
    machine.restart(Crash.POWER)
    assert batches(machine.open()) in ({1: 3}, {1: 3, 2: 3})  # not acknowledged: either will do


def test_a_file_takes_writes_after_a_failed_sync_as_a_descriptor_does() -> None:
    machine = Machine()
    connection = machine.open()
    machine.disk.faults.fail("fdatasync")
    with pytest.raises(apsw.IOError):
        add(connection, 1)
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    add(connection, 2)
    machine.restart()
    assert batches(machine.open()) == {2: 3}


def test_a_full_disk_fails_the_transaction_and_no_more() -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    machine.disk.capacity_bytes = machine.disk.used_bytes() + 4096
    with pytest.raises(apsw.FullError):
        add(connection, 2, row_count=20)
    if connection.in_transaction:
        connection.execute("ROLLBACK")
    assert batches(connection) == {1: 3}
    machine.disk.capacity_bytes = 1 << 40
    add(connection, 3)
    machine.restart(Crash.POWER)
    assert batches(machine.open()) == {1: 3, 3: 3}


def checkpoint(connection: apsw.Connection) -> None:
    connection.wal_checkpoint(mode=TRUNCATE)


@pytest.mark.parametrize(
    ("operation", "code", "expected", "use"),
    [
        ("pwrite", errno.EIO, apsw.SQLITE_IOERR_WRITE, partial(add, batch=2)),
        ("pwrite", errno.ENOSPC, apsw.SQLITE_FULL, partial(add, batch=2)),
        ("fdatasync", errno.EIO, apsw.SQLITE_IOERR_FSYNC, checkpoint),
        ("fdatasync", errno.ENOSPC, apsw.SQLITE_IOERR_FSYNC, checkpoint),
        ("truncate", errno.EIO, apsw.SQLITE_IOERR_TRUNCATE, checkpoint),
        ("pread", errno.EIO, apsw.SQLITE_IOERR_READ, checkpoint),
    ],
)
def test_a_fault_is_what_sqlite_would_call_it(
    operation: str, code: int, expected: int, use: Callable[[apsw.Connection], None]
) -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    machine.disk.faults.fail(operation, code=code)
    with pytest.raises(apsw.Error) as caught:
        use(connection)
    assert code_of(caught.value) == expected


@pytest.mark.parametrize("operation", ["pwrite", "fdatasync", "unlink", "close"])
def test_a_close_reports_no_failure_as_sqlite_reports_none(operation: str) -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    machine.disk.faults.fail(operation)
    connection.close()
    machine.restart(Crash.POWER)
    assert batches(machine.open()) == {1: 3}


def test_a_missing_folder_cannot_be_opened() -> None:
    with pytest.raises(apsw.CantOpenError):
        Machine().databases.connect("/nowhere/meta.db")


def uses(connection: apsw.Connection) -> Iterator[Callable[[], object]]:
    yield partial(connection.execute, "SELECT 1")
    yield partial(connection.executemany, "SELECT ?", [(1,)])
    yield partial(connection.pragma, "user_version")
    yield connection.cursor
    yield partial(connection.wal_checkpoint)
    yield partial(connection.blob_open, "main", "rows", "body", 1, False)
    yield connection.__enter__
    yield partial(connection.__exit__, None, None, None)
    yield partial(add, connection, 7)
    yield connection.close


def test_a_crash_comes_out_of_the_call_that_meets_it_and_of_all_after() -> None:
    machine = Machine()
    connection = machine.open()
    other = machine.databases.connect(PATH)
    add(connection, 1)
    rows = other.execute("SELECT batch FROM rows")
    machine.crash_at_once()
    with pytest.raises(SimulatedCrash, match="crash at step"):
        add(connection, 2)
    for use in [rows.__next__, rows.fetchall, *uses(connection), *uses(other)]:
        with pytest.raises(SimulatedCrash):
            use()
    with pytest.raises(SimulatedCrash):
        machine.databases.connect(PATH)


@pytest.mark.parametrize("crash", list(Crash))
def test_a_connection_of_an_earlier_life_is_of_no_use_and_does_no_harm(crash: Crash) -> None:
    machine = Machine()
    connection, other = machine.open(), machine.open()
    add(connection, 1)
    rows = other.execute("SELECT batch FROM rows")
    connection.execute("BEGIN IMMEDIATE")  # its lock must not be in the way
    connection.execute("INSERT INTO rows VALUES (2, NULL)")
    machine.restart(crash)
    again = machine.open()
    add(again, 3)
    steps = machine.disk.steps
    for use in [rows.__next__, rows.fetchall, *uses(connection)]:
        with pytest.raises(SimulatedCrash):
            use()
    del rows, other, connection, use
    gc.collect()
    assert machine.disk.steps == steps
    assert batches(again) == {1: 3, 3: 3}
    assert again.pragma("integrity_check") == "ok"


def test_a_thread_that_is_killed_within_a_transaction_leaves_no_lock() -> None:
    machine = Machine()
    connection = machine.open()

    def write_for_ever() -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows VALUES (1, NULL)")
            machine.world.runner.event().wait()
        finally:
            connection.close()

    machine.world.runner.call("writer", write_for_ever)
    machine.world.runner.settle()
    machine.restart()
    again = machine.open()
    add(again, 2)
    assert batches(again) == {2: 3}


def test_threads_take_turns_between_statements_and_never_within() -> None:
    seen: set[tuple[int, ...]] = set()
    for seed in range(12):
        machine = Machine(seed)
        writer = machine.open()
        reader = machine.databases.connect(PATH)
        machine.world.runner.call("writer", partial(add, writer, 1))
        read = machine.world.runner.call("reader", partial(batches, reader))
        machine.world.runner.run()
        seen.add(tuple(read.result()))
        pauses = [line for line in machine.world.trace if line.startswith(("writer:", "reader:"))]
        assert {line.split(": ")[1] for line in pauses} == {"sqlite execute"}
    assert seen == {(), (1,)}


def test_a_lock_that_is_taken_is_reported_at_once_whatever_the_timeout() -> None:
    machine = Machine()
    first, second = machine.open(), machine.open()
    second.set_busy_timeout(3_600_000)
    first.execute("BEGIN IMMEDIATE")
    with pytest.raises(apsw.BusyError):
        second.execute("BEGIN IMMEDIATE")
    first.execute("ROLLBACK")
    add(second, 1)


def test_a_wal_that_was_emptied_does_not_come_back_in_part() -> None:
    machine = Machine()
    connection = machine.open()
    for batch in range(3):
        add(connection, batch)
    checkpoint(connection)
    for survivors in range(150):  # old frames that are whole up to a commit are a rare draw
        twin = machine.world.copy()
        twin.restart(Crash.POWER, survivors=survivors)
        again = SimulatedDatabases(twin.disk).connect(PATH)
        assert batches(again) == {0: 3, 1: 3, 2: 3}, survivors
        assert again.pragma("integrity_check") == "ok"


def test_a_database_that_asks_to_be_mapped_is_read_all_the_same() -> None:
    machine = Machine()
    connection, other = machine.open(), machine.open()
    for each in (connection, other):
        each.pragma("mmap_size", 1 << 30)
    add(connection, 1, row_count=50)
    checkpoint(connection)
    assert batches(other) == {1: 50}
    assert other.pragma("integrity_check") == "ok"


def test_a_delete_that_asks_for_it_syncs_the_folder() -> None:
    machine = Machine()
    connection = machine.databases.connect(PATH)
    connection.pragma("synchronous", "extra")  # without a WAL: each commit deletes its journal
    connection.execute("CREATE TABLE rows (batch INTEGER, body BLOB)")
    add(connection, 1)
    deleted = machine.world.trace[-2:]
    assert [line.split(" ", 1)[1] for line in deleted] == ["unlink /meta.db-journal", "fsync /"]
    machine.disk.faults.fail("fsync", nth=2)  # the first is that of the new journal
    with pytest.raises(apsw.IOError) as caught:
        add(connection, 2)
    assert code_of(caught.value) == apsw.SQLITE_IOERR_DIR_FSYNC


def test_databases_of_one_disk_have_their_own_locks() -> None:
    machine = Machine()
    machine.disk.make_folder("/other")
    first = machine.open()
    second = machine.databases.connect("other/meta.db")
    first.execute("BEGIN IMMEDIATE")
    second.execute("CREATE TABLE other (number INTEGER)")
    first.execute("COMMIT")
    assert machine.disk.names("/other") == ["meta.db"]
    assert not first.table_exists(None, "other")
    assert second.table_exists(None, "other")


def test_two_worlds_do_not_disturb_one_another() -> None:
    one, two = Machine(1), Machine(2)
    first, second = one.open(), two.open()
    first.execute("BEGIN IMMEDIATE")
    first.execute("INSERT INTO rows VALUES (1, NULL)")
    add(second, 2)
    one.crash_at_once()
    with pytest.raises(SimulatedCrash):
        first.execute("COMMIT")
    add(second, 3)
    one.restart()
    assert batches(one.open()) == {}
    assert batches(second) == {2: 3, 3: 3}


def test_a_copy_of_a_world_goes_its_own_way() -> None:
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    twin = machine.world.copy()
    add(connection, 2)
    copied = SimulatedDatabases(twin.disk).connect(PATH)
    assert batches(copied) == {1: 3}
    assert batches(connection) == {1: 3, 2: 3}


def test_scratch_folders_are_removed_with_their_life(scratch: Path) -> None:
    machine = Machine()
    connection = machine.open()
    (first,) = scratch.iterdir()
    machine.restart()
    again = machine.open()
    (second,) = scratch.iterdir()
    assert first != second
    again.close()
    machine.databases.close()
    assert list(scratch.iterdir()) == []
    del connection


def test_scratch_folders_are_removed_with_databases_that_are_forgotten(scratch: Path) -> None:
    before = set(apsw.vfs_names())  # those of other tests, perhaps
    machine = Machine()
    connection = machine.open()
    add(connection, 1)
    assert len(list(scratch.iterdir())) == 1
    del machine, connection
    gc.collect()
    assert list(scratch.iterdir()) == []
    assert set(apsw.vfs_names()) <= before
