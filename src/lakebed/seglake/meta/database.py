"""The metadata's database: who may read and write it, when, and what a failure does to it.

- One transaction writes at a time; each of its operations is apart from the others by a
  savepoint. What `write` returned is durable (WAL, synchronous=FULL).
- Readers have connections and snapshots of their own and never wait for the writer.
- After an I/O error no connection is used again, for nobody knows what it believes. The outcome
  of that transaction is unknown, and nothing is repeated. The next use settles the write-ahead
  log (`wal`) and opens everything anew: then the transaction is there, whole and durable, or not.
  On a file system that has gone read-only nothing can be settled: reads go on, writes fail.
- In a forked child nothing is closed and everything is refused: SQLite must not run there.

Nothing that was acknowledged is lost by a crash. The log is carried over into the database by
`checkpoint`, which somebody calls now and then, and by `close`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Generic, NamedTuple, TypeVar

import apsw

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, Corrupt, DiskError, InputError, LakebedError
from lakebed.base.files import Disk, PathLike, fork_guard
from lakebed.base.runner import Runner
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.connection import (
    Connector,
    NoMetadata,
    connect,
    is_blank,
    is_harmless,
    is_isolated,
    prepare_checkpointer,
    prepare_reader,
    prepare_writer,
    translated,
)
from lakebed.seglake.meta.migration import check_version, migrate, version_of
from lakebed.seglake.meta.new_database_check import NO_CHECK, NewCheck
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.wal import settle_wal, wal_bytes
from lakebed.seglake.meta.writer import Writer

_TRUNCATE_TRIES = 20  # a millisecond apart: for readers that are under way to end

Result = TypeVar("Result")

_left_behind: list[object] = []  # connections of a parent: closing them here could harm it


class GroupedOperations(NamedTuple, Generic[Result]):
    """Operations that can be carried out at once; if that fails, they are one by one."""

    at_once: Callable[[Writer], Sequence[Result | LakebedError]]  # one result for each
    one_by_one: Sequence[Callable[[Writer], Result]]


class Database:
    """Thread-safe. At most `readers_max` connections are kept for reading; more are passing."""

    def __init__(
        self,
        path: PathLike,
        *,
        disk: Disk,
        runner: Runner,
        readers_max: int,
        connector: Connector = connect,
        read_only: bool = False,
        new_check: NewCheck = NO_CHECK,
    ) -> None:
        """Opens it, or makes it; if only reading is wanted it must be there (`NotFound`).

        `new_database_check` raises if one that looks new cannot be.
        """
        self._path = os.fspath(path)
        self._disk = disk
        self._runner = runner
        self._readers_max = readers_max
        self._connector = connector
        self._read_only = read_only
        self._new_check = new_check
        self._process = fork_guard.generation()
        self._writing = runner.mutex()  # held for a whole transaction: writers queue up here
        self._checkpointing = runner.mutex()  # held for a whole checkpoint, taken before _writing
        self._mutex = runner.mutex()  # guards the three below
        self._idle: list[Reader] = []
        self._era = 0  # goes up when connections must not be used again
        self._is_closed = False
        self._writer: Writer | None = None  # guarded by _writing; None: to be opened
        self._open()
        fork_guard.hold(self)

    @property
    def path(self) -> str:
        return self._path

    @property
    def wal_bytes(self) -> int:
        """How long the write-ahead log is, for whoever decides on checkpoints."""
        return wal_bytes(self._disk, self._path)

    def snapshot(self) -> ReadTransaction:
        """A snapshot to read from, in a `with`. It never waits for the writer."""
        return ReadTransaction(self)

    def query(self) -> ReadTransaction:
        """As `snapshot`, for a single question: each has a snapshot of its own."""
        return ReadTransaction(self, is_snapshot=False)

    def write(
        self, operations: Sequence[Callable[[Writer], Result] | GroupedOperations[Result]]
    ) -> list[Result | LakebedError]:
        """Carry out all of them in one transaction, in order: durable when this returns.

        An operation's `LakebedError` undoes and fails that one alone. An error that is raised
        concerns all: `NoSpace` and `Busy` changed nothing, a `DiskError` has an unknown outcome.
        """
        assert not self._read_only, "opened for reading only"
        with self._writing:
            self._check_usable()
            self._new_check.check_file()  # nothing is acknowledged into a file that was deleted
            writer = self._writer or self._open_writer()
            try:
                return _transact(writer, operations, path=self._path)
            except apsw.Error as error:
                if not is_harmless(error) or not _rolled_back(writer.connection):
                    self._drop_connections()
                raise translated(error, path=self._path) from error
            except Exception:  # a mistake of ours in an operation
                if not _rolled_back(writer.connection):
                    self._drop_connections()
                raise
            except BaseException:
                self._drop_connections()
                raise

    def checkpoint(self) -> bool:
        """Carry the write-ahead log over into the database; whether it is empty now.

        Most of the work is done beside the writer, which waits for the end of it alone.
        """
        assert not self._read_only, "opened for reading only"
        with self._checkpointing:
            self._check_usable()
            if self._writer is None:
                return False  # it failed: the next use opens it anew
            if not self.wal_bytes:
                return True
            try:
                return self._checkpoint()
            except apsw.Error as error:
                with self._writing:
                    self._drop_connections()
                raise translated(error, path=self._path) from error

    def close(self) -> None:
        """Idempotent. Checkpoints; readers that are under way end as usual."""
        if self._is_closed or self._process != fork_guard.generation():
            return
        try:
            if not self._read_only:
                self.checkpoint()
        finally:
            with self._writing:
                self._is_closed = True
                self._drop_connections()
            fork_guard.release(self)

    def drop(self) -> None:
        """In a forked child: forget the connections, and leave them alone."""
        _left_behind.append((self._writer, self._idle))
        self._writer = None
        self._idle = []

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What `ReadTransaction` does with it.

    def take(self) -> tuple[Reader, int]:
        """A connection that nobody else has, and the era it belongs to."""
        self._check_usable()
        if self._writer is None and not self._read_only:
            self._recover()
        with self._mutex:
            era = self._era
            if self._idle:
                return self._idle.pop(), era
        reader = self._open_reader()
        if era == self._era:
            return reader, era
        reader.connection.close(True)  # all were dropped meanwhile: the log must be settled first
        return self.take()

    def give_back(self, reader: Reader, era: int) -> None:
        """A statement that somebody left unfinished keeps its snapshot: not to be used again."""
        if reader.connection.txn_state() == apsw.SQLITE_TXN_NONE:
            with self._mutex:
                if era == self._era and len(self._idle) < self._readers_max:
                    self._idle.append(reader)
                    return
        reader.connection.close(True)

    # Opening and closing.

    def _recover(self) -> None:
        """After a failure, before anything is read: open the writer again, which settles the log.

        A file system that has gone read-only refuses that. Then nothing can be appended to the log
        either, so it is read as it is: it may show a change that failed with an unknown outcome.
        """
        with self._writing:
            self._check_usable()
            if self._writer is not None:
                return
            try:
                self._open_writer()
            except DiskError as error:
                if error.code != errno.EROFS:
                    raise

    def _open(self) -> None:
        if not self._read_only:
            with self._writing:
                self._open_writer()
            return
        self._new_check.check_file()
        if not self._disk.exists(self._path):
            raise NoMetadata(self._path)
        reader = self._open_reader(check=self._check_empty)
        try:
            check_version(reader.connection, self._path)
            self._new_check.check_history(reader)
        except apsw.Error as error:
            reader.connection.close()
            raise translated(error, path=self._path) from error
        except BaseException:
            reader.connection.close()
            raise
        self._idle.append(reader)

    def _check_empty(self, connection: apsw.Connection) -> None:
        if not version_of(connection, self._path):
            self._new_check.check_empty(is_blank=is_blank(connection))

    def _open_writer(self) -> Writer:
        """Holds _writing, and no connection of this process is open."""
        self._new_check.check_file()
        if not self._disk.exists(self._path):  # SQLite would make it for others to read
            self._disk.create(self._path).close()
        settle_wal(self._disk, self._path)
        now_ms = self._runner.clock.wall_ns() // NS_PER_MS

        def prepare(connection: apsw.Connection) -> None:
            prepare_writer(connection, self._path, check=self._check_empty)
            migrate(connection, self._path, now_ms=now_ms)
            self._new_check.check_history(Reader(connection))

        connection = self._connect(prepare)
        try:
            # SQLite does so as well, and does not mind if it fails.
            self._disk.sync_folder(os.path.dirname(self._path) or ".")
        except BaseException:
            connection.close(True)
            raise
        self._writer = Writer(connection)
        return self._writer

    def _open_reader(self, *, check: Callable[[apsw.Connection], None] = lambda _: None) -> Reader:
        prepare = partial(prepare_reader, path=self._path, check=check)
        return Reader(self._connect(prepare))

    def _connect(self, prepare: Callable[[apsw.Connection], None]) -> apsw.Connection:
        try:
            connection = self._connector(self._path)
            try:
                prepare(connection)
            except BaseException:
                connection.close(True)
                raise
        except apsw.Error as error:
            raise translated(error, path=self._path) from error
        return connection

    def _drop_connections(self) -> None:
        """Holds _writing. Readers that are under way close their own when they end."""
        with self._mutex:
            self._era += 1
            idle, self._idle = self._idle, []
        writer, self._writer = self._writer, None
        for reader in (*idle, *([writer] if writer else ())):
            reader.connection.close(True)

    def _checkpoint(self) -> bool:
        connection = self._connect(prepare_checkpointer)
        try:
            connection.execute(statements.CHECKPOINT_PASSIVE).fetchall()
            with self._writing:
                # Now that nothing is added, new readers do without the log: the old ones will end.
                for _ in range(_TRUNCATE_TRIES):
                    [(is_busy, *_)] = connection.execute(statements.CHECKPOINT_TRUNCATE)
                    if not is_busy:
                        return True
                    self._runner.sleep_ns(NS_PER_MS)
            return False
        finally:
            connection.close(True)

    def _check_usable(self) -> None:
        fork_guard.check(self._process, self._path)
        if self._is_closed:
            raise Closed(f"{self._path}: the metadata were closed")


class ReadTransaction:
    """One read transaction, for a `with`."""

    __slots__ = ("_database", "_era", "_is_snapshot", "_reader")

    def __init__(self, database: Database, *, is_snapshot: bool = True) -> None:
        self._database = database
        self._is_snapshot = is_snapshot
        self._era = 0
        self._reader: Reader | None = None

    def __enter__(self) -> Reader:
        reader, self._era = self._database.take()
        try:
            if self._is_snapshot:
                reader.connection.execute(statements.BEGIN_READING)
        except BaseException as error:
            self._close(reader, error)
            raise
        self._reader = reader
        return reader

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        reader, self._reader = self._reader, None
        assert reader is not None, "not entered"
        if error is not None and not isinstance(error, LakebedError):
            self._close(reader, error)
            return
        try:
            if self._is_snapshot:
                reader.connection.execute(statements.COMMIT)
        except BaseException as failure:
            self._close(reader, failure)
            raise
        self._database.give_back(reader, self._era)

    def _close(self, reader: Reader, error: BaseException) -> None:
        """After an error that nobody foresaw the connection is not used again."""
        reader.connection.close(True)
        if isinstance(error, apsw.Error):
            raise translated(error, path=self._database.path) from error
        if isinstance(error, UnicodeDecodeError):
            problem = f"the metadata are damaged: not a text ({error})"
            raise Corrupt(problem, path=self._database.path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise InputError(f"that cannot be looked for: {error}") from error


def _transact(
    writer: Writer,
    operations: Sequence[Callable[[Writer], Result] | GroupedOperations[Result]],
    *,
    path: str,
) -> list[Result | LakebedError]:
    execute = writer.connection.execute
    execute(statements.BEGIN_WRITING)
    results: list[Result | LakebedError] = []
    for operation in operations:
        if isinstance(operation, GroupedOperations):
            results += _run_grouped(writer, operation, path=path)
        else:
            results.append(_apart(writer, operation, path=path))
    execute(statements.COMMIT)
    return results


def _run_grouped(
    writer: Writer, operations: GroupedOperations[Result], *, path: str
) -> Sequence[Result | LakebedError]:
    found = _apart(writer, operations.at_once, path=path)
    if isinstance(found, LakebedError):
        return [_apart(writer, operation, path=path) for operation in operations.one_by_one]
    assert len(found) == len(operations.one_by_one), "an operation has no result"
    return found


def _apart(
    writer: Writer, operation: Callable[[Writer], Result], *, path: str
) -> Result | LakebedError:
    """What it returns, or the error that undid it."""
    execute = writer.connection.execute
    execute(statements.SAVEPOINT)
    try:
        result = operation(writer)
    except LakebedError as error:
        failure = error
    except apsw.Error as error:
        if not is_isolated(error):
            raise
        failure = translated(error, path=path)
    except UnicodeDecodeError as error:
        failure = Corrupt(f"the metadata are damaged: not a text ({error})", path=path)
    else:
        execute(statements.RELEASE)
        return result
    execute(statements.UNDO)
    execute(statements.RELEASE)
    return failure


def _rolled_back(connection: apsw.Connection) -> bool:
    try:
        if connection.in_transaction:
            connection.execute(statements.ROLLBACK)
    except apsw.Error:
        return False
    return True
