"""How the metadata's file is opened, and what SQLite's errors mean here.

No error of `apsw` leaves the package: `translated` says what the caller can do.

SQLite locks with POSIX locks, which a process loses when it closes *any* descriptor of the file.
So nobody opens `meta.db` but SQLite itself.
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
"""Opens the file, creating it: the operating system's, or that of a simulated disk."""

RESTORE = "restore a backup (lakebed restore)"  # the way back

BUSY_MS = 10_000  # how long another process may hold a lock
_STATEMENTS_KEPT = 128
_BLOB_BYTES_MAX = 1_000_000_000

_SYNC_CODES = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})
_READ_CODES = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ})
_ISOLATED = (apsw.ConstraintError, apsw.TooBigError)  # a statement's own: the transaction goes on
_HARMLESS = (apsw.BusyError, apsw.FullError, *_ISOLATED)  # the connection can be used again


class NoMetadata(NotFound):
    """Nobody has made the database yet."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: there are no metadata")


def connect(path: str) -> apsw.Connection:
    """The operating system's file. Programs that are executed do not inherit it."""
    return guarded(path, partial(apsw.Connection, path, statementcachesize=_STATEMENTS_KEPT))


def connect_read_only(path: str) -> apsw.Connection:
    """As `connect`; it neither makes nor changes the database, also after a crash.

    What readers share with the writer, `-wal` and `-shm`, is made if it is missing.
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
    """Whether the file has no byte. A statement would make SQLite delete its write-ahead log."""
    if not connection.filename:
        return False  # it is in memory
    has_one, _ = connection.read("main", 0, 0, 1)
    return not has_one


def prepare_writer(
    connection: apsw.Connection, path: str, *, check: Callable[[apsw.Connection], None]
) -> None:
    """Make it a WAL database, or refuse: anything else would not be what was promised.

    `check` raises for what is not ours, before anything is changed.
    """
    _prepare(connection)
    check(connection)
    mode = connection.execute(statements.MAKE_WAL).get
    if mode != "wal":
        raise DiskError("open", path, why=f"journal_mode is {mode}, and must be wal")
    connection.execute(statements.SYNC_FULLY)
    connection.execute(statements.NO_AUTOMATIC_CHECKPOINT)
    connection.execute(statements.WRITER_CACHE)


def prepare_reader(
    connection: apsw.Connection,
    path: str,
    *,
    check: Callable[[apsw.Connection], None] = lambda _: None,
) -> None:
    """`check` raises for what must not be read, `NoMetadata` comes if there is nothing yet."""
    _prepare(connection)
    check(connection)
    if is_blank(connection):
        raise NoMetadata(path)
    mode = connection.execute(statements.IS_WAL).get
    if mode != "wal" and not connection.execute(statements.TABLE_COUNT).get:
        raise NoMetadata(path)  # its making was cut short, or goes on
    if mode != "wal":
        raise DiskError("open", path, why=f"journal_mode is {mode}, and must be wal")
    connection.execute(statements.READER_CACHE)
    connection.execute(statements.QUERY_ONLY)


def prepare_checkpointer(connection: apsw.Connection) -> None:
    """It never waits for a reader: it comes back later."""
    _prepare(connection)
    connection.set_busy_timeout(0)
    connection.execute(statements.SYNC_FULLY)


def _prepare(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    # A connection that is closed after an I/O error must not carry anything over by itself.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Plans do not depend on the values that are bound, or each use would plan anew.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def is_isolated(error: apsw.Error) -> bool:
    """Whether it undid its own statement and nothing else."""
    return isinstance(error, _ISOLATED)


def is_harmless(error: apsw.Error) -> bool:
    """Whether the connections can be kept. All others are closed and opened anew."""
    return isinstance(error, _HARMLESS)


def translated(error: apsw.Error, *, path: str) -> LakebedError:
    """The same, as an error of this store."""
    why = str(error)
    match error:
        case apsw.CorruptError():
            return Corrupt(f"the metadata are damaged ({why}): {RESTORE}", path=path)
        case apsw.NotADBError():
            return Corrupt(f"not a database of metadata: {RESTORE}", path=path)
        case apsw.FullError():
            return NoSpace(f"{path}: {why}")
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"{path}: {why}")
        case apsw.ConstraintError():
            return AlreadyExists(f"{path}: {why}")
        case apsw.TooBigError():
            return TooLarge("a row of the metadata", size=_BLOB_BYTES_MAX, limit=_BLOB_BYTES_MAX)
        case apsw.ConnectionClosedError():
            return Closed(f"{path}: the metadata were closed")
        case apsw.IOError() if _extended(error) in _SYNC_CODES:
            return SyncFailed("fsync", path, why=why)
        case apsw.IOError() if _extended(error) in _READ_CODES:
            return DiskError("read", path, why=why)
        case apsw.CantOpenError():
            return NotFound(f"{path}: {why}")
        case apsw.ReadOnlyError() if _extended(error) == apsw.SQLITE_READONLY:
            return WriteFailed("write", path, code=errno.EROFS)
        case apsw.ReadOnlyError():
            return DiskError("open", path, why="it must be opened for writing once, after a crash")
        case _:
            return WriteFailed("write", path, why=why)


def _extended(error: apsw.Error) -> int:
    code: int = getattr(error, "extendedresult", 0)
    return code
