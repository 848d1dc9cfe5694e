"""The metadata database: transactions, the pool of readers, checkpoints and failures.

- There is one write transaction at a time. Each of its operations has a savepoint, so that a failed
  operation is undone without the others. A transaction is durable when `write` returns (WAL,
  synchronous=FULL).
- Readers have their own connections and snapshots and do not wait for the writer, except to reopen
  the database after a failure.
- After an I/O error all connections are closed, because their state is unknown. The outcome of the
  failed transaction is unknown too, and it is not repeated. The next use makes the write-ahead log
  durable (`wal`) and reopens the database; after that, the transaction either happened completely
  or did not happen. If the file system became read-only, the database cannot be reopened for
  writing: reads still work, but writes fail.
- In a forked child process every call is refused, because SQLite connections must not be used
  there.

A crash loses no acknowledged change. `checkpoint`, which background work calls, and `close` move
the write-ahead log into the database file.
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
from lakebed.base.errors import Closed, Corrupt, DiskError, InputError, LakebedError, NotFound
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

_TRUNCATE_TRIES = 20  # one millisecond apart, so that running readers can end

Result = TypeVar("Result")

# Connections of the parent process, kept open in a forked child: closing them there could harm the
# parent.
_left_behind: list[object] = []


class GroupedOperations(NamedTuple, Generic[Result]):
    """Operations that can run in one call. If that call fails, they run one by one instead."""

    at_once: Callable[[Writer], Sequence[Result | LakebedError]]  # returns a result for each
    one_by_one: Sequence[Callable[[Writer], Result]]


class Database:
    """The metadata database of an object store. Thread-safe.

    It keeps at most `readers_max` idle connections for reading; more are closed after use.
    """

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
        """Opens the database, and migrates it or creates it if necessary.

        With `read_only`, raises `NotFound` if it does not exist or has no tables, and
        `UnknownVersion` if its schema does not have the current version. `new_check` raises an
        error if the database looks new but cannot be new.
        """
        self._path = os.fspath(path)
        self._disk = disk
        self._runner = runner
        self._readers_max = readers_max
        self._connector = connector
        self._read_only = read_only
        self._new_check = new_check
        self._process = fork_guard.generation()
        self._writing = runner.mutex()  # held during a write transaction
        self._checkpointing = runner.mutex()  # held during a checkpoint, taken before _writing
        self._mutex = runner.mutex()  # guards the next three
        self._idle: list[Reader] = []
        self._era = 0  # increases when all connections must be replaced
        self._is_closed = False
        self._writer: Writer | None = None  # guarded by _writing; None: must be reopened
        self._open()
        fork_guard.watch(self)

    @property
    def path(self) -> str:
        return self._path

    @property
    def wal_bytes(self) -> int:
        """The length of the write-ahead log in bytes."""
        return wal_bytes(self._disk, self._path)

    def snapshot(self) -> ReadTransaction:
        """Returns a context manager for reading one snapshot. Does not wait for the writer."""
        return ReadTransaction(self)

    def query(self) -> ReadTransaction:
        """Returns a context manager for a single query, which is cheaper than a snapshot.

        If it is used for several queries, each sees the newest state.
        """
        return ReadTransaction(self, is_snapshot=False)

    def write(
        self, operations: Sequence[Callable[[Writer], Result] | GroupedOperations[Result]]
    ) -> list[Result | LakebedError]:
        """Runs all operations in order in one transaction, which is durable on return.

        Returns their results in order; `GroupedOperations` have one result for each operation in
        `one_by_one`. If an operation raises a `LakebedError`, only that operation is undone, and
        the error is its result. An error that `write` itself raises concerns all operations: after
        `NoSpace` or `Busy` nothing was changed, and after a `DiskError` the outcome is unknown.
        """
        assert not self._read_only, "opened for reading only"
        with self._writing:
            self._check_usable()
            self._new_check.check_file()  # a write into a deleted file must not be acknowledged
            writer = self._writer or self._open_writer()
            try:
                return _transact(writer, operations, path=self._path)
            except apsw.Error as error:
                if not is_harmless(error) or not _rolled_back(writer.connection):
                    self._drop_connections()
                raise translated(error, path=self._path) from error
            except Exception:  # a bug in an operation
                if not _rolled_back(writer.connection):
                    self._drop_connections()
                raise
            except BaseException:
                self._drop_connections()
                raise

    def checkpoint(self) -> bool:
        """Moves the write-ahead log into the database file; returns whether the log is now empty.

        Returns False if running readers prevent that, or if the database must be reopened after a
        failure. Changes can be written during most of the checkpoint; only its last step blocks
        them.
        """
        assert not self._read_only, "opened for reading only"
        with self._checkpointing:
            self._check_usable()
            if self._writer is None:
                return False  # the writer failed: the next use reopens it
            if not self.wal_bytes:
                return True
            try:
                return self._checkpoint()
            except apsw.Error as error:
                with self._writing:
                    self._drop_connections()
                raise translated(error, path=self._path) from error

    def close(self) -> None:
        """Closes the database, after a checkpoint unless it is read-only. Idempotent.

        Reads in progress can continue to their end.
        """
        if self._is_closed or self._process != fork_guard.generation():
            return
        try:
            if not self._read_only:
                self.checkpoint()
        finally:
            with self._writing:
                self._is_closed = True
                self._drop_connections()

    def drop(self) -> None:
        """Forgets the connections in a forked child, without closing them."""
        _left_behind.append((self._writer, self._idle))
        self._writer = None
        self._idle = []

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Used by `ReadTransaction`.

    def take(self) -> tuple[Reader, int]:
        """Returns a read connection for exclusive use, and its era, to pass to `give_back`.

        The era increases each time that all connections must be replaced.
        """
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
        reader.connection.close(True)  # opened before a failure: the WAL must be made durable first
        return self.take()

    def give_back(self, reader: Reader, era: int) -> None:
        """Takes back a read connection, and keeps it for later use or closes it.

        Closes it if enough connections are kept, if all connections had to be replaced since it was
        lent, or if an unfinished statement still holds a snapshot.
        """
        if reader.connection.txn_state() == apsw.SQLITE_TXN_NONE:
            with self._mutex:
                if era == self._era and len(self._idle) < self._readers_max:
                    self._idle.append(reader)
                    return
        reader.connection.close(True)

    # Opening and closing.

    def _recover(self) -> None:
        """Reopens the writer's connection after a failure, so that the WAL is durable before reads.

        If the file system became read-only, that is not possible, and nothing can be appended to
        the WAL either. Then reads use the WAL as it is, and may see a change whose outcome was
        unknown.
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
        """Opens the connection for writing, and makes the write-ahead log durable before that.

        The caller must hold `_writing`. No other connection of this process may be writing.
        """
        self._new_check.check_file()
        if not self._disk.exists(self._path):  # SQLite would create it readable for all users
            self._disk.create(self._path).close()
        settle_wal(self._disk, self._path)
        now_ms = self._runner.clock.wall_ns() // NS_PER_MS

        def prepare(connection: apsw.Connection) -> None:
            prepare_writer(connection, self._path, check=self._check_empty)
            migrate(connection, self._path, now_ms=now_ms)
            self._new_check.check_history(Reader(connection))

        connection = self._connect(prepare)
        try:
            # SQLite syncs the folder too, but ignores a failure.
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
        except apsw.CantOpenError as error:
            raise self._cannot_open(error) from error
        except apsw.Error as error:
            raise translated(error, path=self._path) from error
        return connection

    def _cannot_open(self, error: apsw.CantOpenError) -> LakebedError:
        """Returns the error to raise if SQLite could not open a file; SQLite does not report why.

        The file is not opened here to find out the cause: closing it would release SQLite's locks.
        """
        if not self._disk.exists(self._path):
            return NotFound(f"{self._path}: the metadata database does not exist")
        self._disk.names(os.path.dirname(self._path))  # raises `TooManyFiles` if that is why
        return translated(error, path=self._path)

    def _drop_connections(self) -> None:
        """Closes all connections that are not in use. The caller must hold `_writing`.

        Connections that are in use are closed when their readers end.
        """
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
                # With no new writes, new readers do not use the log, and the old ones will end.
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
            raise Closed(f"{self._path}: the metadata database is closed")


class ReadTransaction:
    """A context manager that lends a read connection, for a snapshot in a read transaction."""

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
        """Closes the connection after an error that is not a `LakebedError`.

        Raises the corresponding `LakebedError` if the error came from SQLite, or from converting a
        value to or from SQLite's types. Otherwise the caller raises the error itself.
        """
        reader.connection.close(True)
        if isinstance(error, apsw.Error):
            raise translated(error, path=self._database.path) from error
        if isinstance(error, UnicodeDecodeError):
            problem = f"the metadata database is damaged: invalid text ({error})"
            raise Corrupt(problem, path=self._database.path) from error
        if isinstance(error, UnicodeEncodeError | OverflowError):
            raise InputError(
                f"a value of the request cannot be looked up in the metadata: {error}"
            ) from error


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
    results = _apart(writer, operations.at_once, path=path)
    if isinstance(results, LakebedError):
        return [_apart(writer, operation, path=path) for operation in operations.one_by_one]
    assert len(results) == len(operations.one_by_one), "an operation has no result"
    return results


def _apart(
    writer: Writer, operation: Callable[[Writer], Result], *, path: str
) -> Result | LakebedError:
    """Runs an operation in a savepoint, and returns its result.

    If the operation fails but the transaction can continue, rolls back the operation and returns
    the error. If the transaction cannot continue, raises the error.
    """
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
        failure = Corrupt(f"the metadata database is damaged: invalid text ({error})", path=path)
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
