"""Transactions, snapshots, opening and closing, on the operating system's disk."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from lakebed.base.errors import (
    Busy,
    Closed,
    Corrupt,
    DiskError,
    LakebedError,
    NotFound,
    TooLarge,
    UnknownVersion,
)
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.seglake.errors import PreconditionFailed
from lakebed.seglake.meta import connection as connections
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.writer import Writer
from tests.seglake.meta.samples import BUCKET, bucket, open_database, put, upload, version, write


def refuse(writer: Writer) -> None:
    """Changes something, and then finds that it must not."""
    put(version("refused", 99))(writer)
    raise PreconditionFailed("not so")


def keys(reader: Reader) -> list[str]:
    return [row.key for row in reader.current_from(BUCKET, start=b"", end=b"\xff")]


def test_a_failed_operation_is_undone_alone(database: Database) -> None:
    results = database.write([put(version("a", 1)), refuse, put(version("b", 2))])
    assert results[0] is None
    assert isinstance(results[1], PreconditionFailed)
    assert results[2] is None
    with database.snapshot() as reader:
        assert keys(reader) == ["a", "b"]


def test_an_operation_sees_what_those_before_it_did(database: Database) -> None:
    seen: list[LakebedError | bool] = []
    operations: list[Callable[[Writer], bool]] = [
        lambda writer: put(version("a", 1))(writer) is None,
        lambda writer: writer.current(BUCKET, "a") is not None,
    ]
    seen = database.write(operations)
    assert seen == [True, True]


def test_a_mistake_in_an_operation_undoes_the_whole_transaction(database: Database) -> None:
    def mistake(_writer: Writer) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.write([put(version("a", 1)), mistake])
    write(database, put(version("b", 2)))
    with database.snapshot() as reader:
        assert keys(reader) == ["b"]


def test_an_interrupt_undoes_the_whole_transaction(database: Database) -> None:
    def interrupted(_writer: Writer) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.write([put(version("a", 1)), interrupted])
    write(database, put(version("b", 2)))
    with database.snapshot() as reader:
        assert keys(reader) == ["b"]


def test_a_snapshot_does_not_change_and_a_new_one_does(database: Database) -> None:
    write(database, put(version("a", 1)))
    with database.snapshot() as reader:
        assert keys(reader) == ["a"]
        write(database, put(version("b", 2)))
        assert keys(reader) == ["a"]
        with database.snapshot() as another:
            assert keys(another) == ["a", "b"]


def test_a_reader_does_not_wait_for_the_writer(database: Database) -> None:
    def read_inside(writer: Writer) -> list[str]:
        put(version("a", 1))(writer)
        with database.snapshot() as reader:
            return keys(reader)

    assert write(database, read_inside) == []


def test_an_unfinished_range_does_not_keep_an_old_snapshot_alive(database: Database) -> None:
    write(database, lambda writer: [put(version(f"k{n}", n))(writer) for n in range(1, 9)])
    with database.snapshot() as reader:
        unfinished = reader.current_from(BUCKET, start=b"", end=b"\xff")
        next(unfinished)
    write(database, put(version("new", 10)))
    with database.snapshot() as reader:
        assert "new" in keys(reader)
    with pytest.raises(apsw.CursorClosedError):
        next(unfinished)


def test_connections_are_used_again_and_more_than_are_kept_may_pass(tmp_path: Path) -> None:
    opened: list[apsw.Connection] = []

    def counting(path: str) -> apsw.Connection:
        opened.append(connections.connect(path))
        return opened[-1]

    database = Database(
        tmp_path / "meta.db",
        disk=real_disk(),
        runner=ThreadRunner(),
        readers_max=2,
        connector=counting,
    )
    with database:
        for _ in range(5):
            with database.snapshot() as reader:
                reader.buckets()
        assert len(opened) == 2  # the writer, and one reader
        with database.snapshot(), database.snapshot(), database.snapshot(), database.snapshot():
            pass
        assert len(opened) == 5
        with database.snapshot(), database.snapshot():
            pass
        assert len(opened) == 5
    for connection in opened:
        with pytest.raises(apsw.ConnectionClosedError):
            connection.execute("SELECT 1")


def test_many_threads_read_and_write(database: Database) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for step in range(20):
                row = version(f"{number}/{step}", number * 100 + step + 1)
                write(database, put(row))
                with database.snapshot() as reader:
                    assert reader.current(BUCKET, row.key) == row
                database.checkpoint()
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with database.snapshot() as reader:
        assert len(keys(reader)) == 160
        assert reader.problems() == []


def test_a_checkpoint_empties_the_log(database: Database) -> None:
    write(database, put(version("a", 1)))
    assert database.wal_bytes > 0
    assert database.checkpoint()
    assert database.wal_bytes == 0
    with database.snapshot() as reader:
        assert keys(reader) == ["a"]


def test_a_checkpoint_gives_way_to_a_reader_that_goes_on(database: Database) -> None:
    write(database, put(version("a", 1)))
    with database.snapshot() as reader:
        assert keys(reader) == ["a"]
        write(database, put(version("b", 2)))
        assert not database.checkpoint()
        assert keys(reader) == ["a"]
    assert database.checkpoint()


def test_everything_is_there_after_it_was_opened_again(tmp_path: Path) -> None:
    with open_database(tmp_path) as database:
        write(database, lambda writer: writer.add_bucket(bucket()))
        write(database, put(version("a", 1)))
        with database.snapshot() as reader:
            site_id = reader.site_id()
    with open_database(tmp_path) as database, database.snapshot() as reader:
        assert keys(reader) == ["a"]
        assert reader.site_id() == site_id
        assert len(bytes.fromhex(site_id)) == 8


def test_each_database_is_a_site_of_its_own(tmp_path: Path) -> None:
    sites = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with open_database(tmp_path / name) as database, database.snapshot() as reader:
            sites.add(reader.site_id())
    assert len(sites) == 2


def test_a_closed_database_is_refused(tmp_path: Path) -> None:
    database = open_database(tmp_path)
    database.close()
    database.close()
    with pytest.raises(Closed), database.snapshot():
        pass
    with pytest.raises(Closed):
        database.write([])


def test_a_reader_may_outlast_the_close(database: Database) -> None:
    write(database, put(version("a", 1)))
    with database.snapshot() as reader:
        assert keys(reader) == ["a"]
        database.close()
        assert keys(reader) == ["a"]


def test_a_read_only_database_is_read(tmp_path: Path) -> None:
    with open_database(tmp_path) as database:
        write(database, lambda writer: writer.add_bucket(bucket()))
        with open_database(tmp_path, read_only=True) as second, second.snapshot() as reader:
            assert reader.buckets() == [bucket()]
            with pytest.raises(apsw.ReadOnlyError):
                Writer(reader.connection).add_bucket(bucket("other"))


def test_what_is_only_read_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_database(tmp_path, read_only=True)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_database(tmp_path / "missing")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path, read_only: bool) -> None:
    (tmp_path / "meta.db").write_bytes(b"no database at all" * 500)
    with pytest.raises(Corrupt) as failure:
        open_database(tmp_path, read_only=read_only)
    assert "meta.db" in str(failure.value)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    foreign = apsw.Connection(str(tmp_path / "meta.db"))
    foreign.execute("CREATE TABLE songs (title)")
    foreign.close()
    with pytest.raises(Corrupt):
        open_database(tmp_path)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_database_is_refused(tmp_path: Path, read_only: bool) -> None:
    open_database(tmp_path).close()
    newer = apsw.Connection(str(tmp_path / "meta.db"))
    newer.execute("INSERT INTO schema_migrations VALUES (1000, 0)")
    newer.close()
    with pytest.raises(UnknownVersion) as failure:
        open_database(tmp_path, read_only=read_only)
    assert failure.value.found == 1000


def test_damaged_pages_are_told_as_corrupt(tmp_path: Path) -> None:
    with open_database(tmp_path) as database:
        write(database, lambda writer: writer.add_bucket(bucket()))
        rows = [version(f"key {number}", number) for number in range(1, 500)]
        write(database, lambda writer: [put(row)(writer) for row in rows])
    path = tmp_path / "meta.db"
    data = bytearray(path.read_bytes())
    for offset in range(8192, len(data), 4096):
        data[offset : offset + 64] = bytes(64)
    path.write_bytes(data)
    with (
        pytest.raises(Corrupt),
        open_database(tmp_path) as database,
        database.snapshot() as reader,
    ):
        keys(reader)


DAMAGED_ROWS = [
    (
        "UPDATE objects_current SET state = 'ACTIVF'",
        f"the row of version '{version('a', 1).version_id}', '{BUCKET}', b'a' is damaged",
    ),
    ("UPDATE buckets SET versioning = 'on'", f"the row of bucket '{BUCKET}' is damaged ('on')"),
    (
        "UPDATE multipart_uploads SET key = x'ff'",
        f"the row of upload 'u1', '{BUCKET}', b'\\xff' is damaged",
    ),
]


@pytest.mark.parametrize(("statement", "problem"), DAMAGED_ROWS)
def test_a_damaged_row_is_corrupt_and_named(
    database: Database, statement: str, problem: str
) -> None:
    def damage(writer: Writer) -> None:
        put(version("a", 1))(writer)
        writer.add_upload(upload("a", "u1"))
        writer.connection.execute(statement)

    write(database, damage)
    with database.query() as reader, pytest.raises(Corrupt) as found:
        list(map(str, (reader.current(BUCKET, "a"), reader.bucket(BUCKET), reader.upload("u1"))))
    assert str(found.value).startswith(f"{database.path}: {problem}")


def test_a_row_that_is_too_large_is_refused_without_a_made_up_size(database: Database) -> None:
    def put_too_much(writer: Writer) -> None:
        writer.connection.execute("UPDATE versions SET etag = zeroblob(1000000001)")

    write(database, put(version("a", 1)))
    (refused,) = database.write([put_too_much])
    assert isinstance(refused, TooLarge)
    assert (refused.size, refused.limit) == (None, 1_000_000_000)
    assert str(refused).endswith(", in bytes, is above the maximum of 1000000000")
    assert database.path in str(refused)


def test_a_database_that_cannot_have_a_log_is_refused(tmp_path: Path) -> None:
    def without_log(_path: str) -> apsw.Connection:
        return apsw.Connection(":memory:")  # journal_mode answers "memory"

    with pytest.raises(DiskError, match="must be wal"):
        Database(
            tmp_path / "meta.db",
            disk=real_disk(),
            runner=ThreadRunner(),
            readers_max=1,
            connector=without_log,
        )


def test_another_writer_makes_it_busy(tmp_path: Path) -> None:
    def impatient(path: str) -> apsw.Connection:
        class Impatient(apsw.Connection):
            def set_busy_timeout(self, milliseconds: int) -> None:
                super().set_busy_timeout(0)

        return Impatient(path)

    database = Database(
        tmp_path / "meta.db",
        disk=real_disk(),
        runner=ThreadRunner(),
        readers_max=1,
        connector=impatient,
    )
    with database:
        another = apsw.Connection(database.path)
        another.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy):
            write(database, lambda writer: writer.add_bucket(bucket()))
        another.execute("ROLLBACK")
        another.close()
        write(database, lambda writer: writer.add_bucket(bucket()))


@pytest.mark.process
def test_a_database_that_was_never_closed_does_not_stay_in_memory(tmp_path: Path) -> None:
    forgotten = weakref.ref(open_database(tmp_path))
    gc.collect()
    assert forgotten() is None


def test_a_forked_child_is_refused_and_harms_nothing(database: Database) -> None:
    write(database, put(version("a", 1)))
    with database.snapshot() as reader:
        keys(reader)
    child = os.fork()
    if not child:
        refused = 0
        for use in (lambda: database.snapshot().__enter__(), lambda: database.write([])):
            try:
                use()
            except Closed:
                refused += 1
        database.close()
        os._exit(refused)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    write(database, put(version("b", 2)))
    with database.snapshot() as reader:
        assert keys(reader) == ["a", "b"]
        assert reader.problems() == []
