"""Opens connections to the metadata database and translates SQLite's errors.

Callers of this package never get an `apsw` error: `translated` turns each into a `LakebedError`.

SQLite uses POSIX locks, which a process loses when it closes *any* descriptor of the file. So no
other code in the process may open `meta.db`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

import apsw

from lakebed.base.errors import (
    AlreadyExists,
    Busy,
    Closed,
    Corrupt,
    DiskError,
    LakebedError,
    NoSpace,
    NotFound,
    SyncFailed,
    TooLarge,
    WriteFailed,
)
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.shared_memory import guarded

Connector = Callable[[str], apsw.Connection]
"""Opens or creates the database file, on the real disk or on a simulated one."""

RESTORE = "restore a backup (lakebed restore)"  # advice in error messages

BUSY_MS = 10_000  # how long to wait for a lock that another process holds
_STATEMENTS_KEPT = 128
_ROW_BYTES_MAX = 1_000_000_000  # the default limit of SQLite

_SYNC_CODES = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})
_READ_CODES = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ})
_ISOLATED = (apsw.ConstraintError, apsw.TooBigError)  # undo one statement, not the transaction
_HARMLESS = (apsw.BusyError, apsw.FullError, *_ISOLATED)  # the connection can be used again


class NoMetadata(NotFound):
    """The metadata database does not exist, or has no tables yet."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: the metadata database does not exist, or has no tables yet")


def connect(path: str) -> apsw.Connection:
    """Opens or creates the database. Child programs do not inherit its descriptors."""
    return guarded(path, partial(apsw.Connection, path, statementcachesize=_STATEMENTS_KEPT))


def connect_read_only(path: str) -> apsw.Connection:
    """Opens the database without creating or changing it, even after a crash.

    SQLite creates the files `-wal` and `-shm`, which readers share with the writer, if they are
    missing.
    """
    return guarded(
        path,
        partial(
            apsw.Connection,
            path,
            flags=apsw.SQLITE_OPEN_READONLY,
            statementcachesize=_STATEMENTS_KEPT,
        ),
    )


def is_blank(connection: apsw.Connection) -> bool:
    """Whether the database file is empty.

    Runs no SQL statement, because SQLite would delete the write-ahead log of an empty file.
    """
    if not connection.filename:
        return False  # a database in memory
    has_bytes, _ = connection.read("main", 0, 0, 1)
    return not has_bytes


def prepare_writer(
    connection: apsw.Connection, path: str, *, check: Callable[[apsw.Connection], None]
) -> None:
    """Configures a connection for writing, and puts the database in WAL mode.

    Raises `DiskError` if WAL mode is not possible, because durability relies on it. `check` runs
    before the database is changed, and raises an error if the database must not be used.
    """
    _prepare(connection)
    check(connection)
    mode = connection.execute(statements.MAKE_WAL).get
    if mode != "wal":
        raise DiskError("open", path, why=f"its journal_mode is {mode}, but must be wal")
    connection.execute(statements.SYNC_FULLY)
    connection.execute(statements.NO_AUTOMATIC_CHECKPOINT)
    connection.execute(statements.WRITER_CACHE)


def prepare_reader(
    connection: apsw.Connection,
    path: str,
    *,
    check: Callable[[apsw.Connection], None] = lambda _: None,
) -> None:
    """Configures a connection for reading.

    Raises `NoMetadata` if the database has no tables yet, and `DiskError` if it has tables but is
    not in WAL mode. `check` raises an error if the database must not be used.
    """
    _prepare(connection)
    check(connection)
    if is_blank(connection):
        raise NoMetadata(path)
    mode = connection.execute(statements.IS_WAL).get
    if mode != "wal" and not connection.execute(statements.TABLE_COUNT).get:
        raise NoMetadata(path)  # its creation was interrupted or is still in progress
    if mode != "wal":
        raise DiskError("open", path, why=f"its journal_mode is {mode}, but must be wal")
    connection.execute(statements.READER_CACHE)
    connection.execute(statements.QUERY_ONLY)


def prepare_checkpointer(connection: apsw.Connection) -> None:
    """Configures a connection for checkpoints, so that it never waits for readers."""
    _prepare(connection)
    connection.set_busy_timeout(0)
    connection.execute(statements.SYNC_FULLY)


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # A connection that is closed after an I/O error must not run a checkpoint.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Query plans must not depend on bound values, or SQLite would plan each use again.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def is_isolated(error: apsw.Error) -> bool:
    """Whether SQLite undid only the statement that failed, not the whole transaction."""
    return isinstance(error, _ISOLATED)


def is_harmless(error: apsw.Error) -> bool:
    """Whether the connection can still be used after the error; if not, it must be reopened."""
    return isinstance(error, _HARMLESS)


def translated(error: apsw.Error, *, path: str) -> LakebedError:
    """Converts an SQLite error to a `LakebedError`. `path` names the database in its message."""
    why = str(error)
    match error:
        case apsw.CorruptError():
            return Corrupt(f"the metadata database is damaged ({why}): {RESTORE}", path=path)
        case apsw.NotADBError():
            return Corrupt(f"the file is not an SQLite database: {RESTORE}", path=path)
        case apsw.FullError():
            return NoSpace(f"{path}: {why}")
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path}: {why}")
        case apsw.ConstraintError():
            return AlreadyExists(f"{path}: {why}")
        case apsw.TooBigError():
            what = f"{path}: the size of a row or of a value in it, in bytes,"
            return TooLarge(what, size=None, limit=_ROW_BYTES_MAX)
        case apsw.ConnectionClosedError():
            return Closed(f"{path}: the metadata database is closed")
        case apsw.IOError() if _extended(error) in _SYNC_CODES:
            return SyncFailed("fsync", path, why=why)
        case apsw.IOError() if _extended(error) in _READ_CODES:
            return DiskError("read", path, why=why)
        case apsw.CantOpenError():
            return DiskError("open", path, why=why or "SQLite cannot open one of its files")
        case apsw.ReadOnlyError() if _extended(error) == apsw.SQLITE_READONLY:
            return WriteFailed("write", path, code=errno.EROFS)
        case apsw.ReadOnlyError():
            return DiskError(
                "open",
                path,
                why="SQLite cannot open the database read-only, for example after a crash: open "
                "the store for writing first",
            )
        case _:
            return WriteFailed("write", path, why=why)


def _extended(error: apsw.Error) -> int:
    code: int = getattr(error, "extendedresult", 0)
    return code
