"""Runs SQLite on the simulated disk, so that its files are subject to the same crashes and faults.

    databases = SimulatedDatabases(world.disk)
    connection = databases.connect("/store/meta.db")

Every byte of the database, its WAL and its rollback journal is on the simulated disk. State that
ends with the process is real: temporary tables, and locks and shared memory, for which SQLite uses
scratch files in a real folder. There is one such folder for each life of the disk, which is the
time between two crashes.

- Every write, truncation, sync and delete by SQLite is a step of the disk, at which the disk can
  crash.
- Folders are synced when SQLite on Linux syncs them: at the first sync of a new journal or WAL (a
  failure of this sync is ignored, as in SQLite), and after deletes for which SQLite requests it.
  After a failed sync the file still accepts writes, as a file descriptor does.
- Truncating a file to 0 bytes is atomic and durable: SQLite does so with a WAL without a sync, and
  old frames that reappeared after a power loss would undo later commits.
- Faults become the codes that SQLite on Linux would return, such as IOERR_FSYNC and FULL.
- Another simulated thread may run before a statement, never inside it. If a lock is held, SQLite
  reports BUSY immediately, whatever the time-out, because no thread could release the lock while
  SQLite waits.
- A connection belongs to one life of the disk. The call during which a crash happens raises
  `SimulatedCrash`, and so does every later use of the connection. What SQLite does while it
  unwinds changes no file.

Temporary tables are in real temporary files, which a simulated crash does not affect.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from random import Random
from typing import Any

import apsw

from lakebed.base.errors import LakebedError, NoSpace, NotFound
from lakebed.base.layout import Buffer
from lakebed.base.simulation.disk import SimulatedDisk
from lakebed.base.simulation.open_file import SimulatedFile
from lakebed.base.simulation.scheduler import SimulatedCrash

_SECTOR_BYTES = 4096
_CHARACTERISTICS = apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE | apsw.SQLITE_IOCAP_SUBPAGE_READ
_TEMPORARY = (
    apsw.SQLITE_OPEN_TEMP_DB
    | apsw.SQLITE_OPEN_TRANSIENT_DB
    | apsw.SQLITE_OPEN_TEMP_JOURNAL
    | apsw.SQLITE_OPEN_SUBJOURNAL
)
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

_SCRATCH_FLAGS = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE

_numbers = itertools.count(1)  # SQLite registers file systems by name, process-wide


class SimulatedDatabases:
    """Opens the databases on one simulated disk, before and after crashes.

    Use only one such object per disk: connections of different objects do not see each other's
    locks.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._files: _Files | None = None
        self._random = Random("databases")
        self._over: list[_Files] = []  # file systems of earlier lives of the disk

    def connect(self, path: str | os.PathLike[str]) -> apsw.Connection:
        """Opens a connection to the database at `path`, creating it if it is missing."""
        if self._files is not None and self._files.is_over:
            self._files.remove_scratch()
            self._over.append(self._files)
            self._files = None
        if self._files is None:
            self._files = _Files(self._disk)
        with self._files.call("connect"):
            connection = Connection(self._files, os.fspath(path))
            # SQLite's own random numbers would differ from run to run.
            connection.create_scalar_function("randomblob", self._random.randbytes, 1)  # type: ignore[arg-type]
        self._files.connections.add(connection)
        return connection

    def close(self) -> None:
        """Removes the scratch files. Connections that are still open must not be used
        afterwards.
        """
        if self._files is not None:
            self._files.remove_scratch()
            self._over.append(self._files)
            self._files = None
        for files in self._over:
            files.close_connections()
        self._over.clear()


class Connection(apsw.Connection):
    """A connection to a database. It can be used until the simulated disk crashes."""

    def __init__(self, files: _Files, path: str) -> None:
        self.files = files
        super().__init__(path, vfs=files.name)
        self.cursor_factory = Cursor

    def cursor(self) -> apsw.Cursor:
        self.files.check("a connection")
        return super().cursor()

    def wal_checkpoint(self, *arguments: Any, **options: Any) -> tuple[int, int]:
        with self.files.call("checkpoint"):
            return super().wal_checkpoint(*arguments, **options)

    def blob_open(self, *arguments: Any, **options: Any) -> apsw.Blob:
        with self.files.call("open a blob"):
            return super().blob_open(*arguments, **options)

    def backup(self, *arguments: Any, **options: Any) -> apsw.Backup:
        with self.files.call("backup"):
            return super().backup(*arguments, **options)

    def __enter__(self) -> apsw.Connection:
        with self.files.call("savepoint"):
            return super().__enter__()

    def __exit__(self, *error: Any) -> bool:
        with self.files.call("release savepoint"):
            return super().__exit__(*error)

    def close(self, force: bool = False) -> None:
        """Closes the connection. Failed file operations are ignored, as they are in SQLite. Raises
        `SimulatedCrash` if the disk has crashed.
        """
        if self.files.is_over:
            super().close(force)
            self.files.check("a connection")
        with self.files.call("close"), contextlib.suppress(apsw.IOError, apsw.FullError):
            super().close(force)


class Cursor(apsw.Cursor):
    """Executes statements; before each, other simulated threads may run. Connections use it to
    execute statements too.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        assert isinstance(connection, Connection)
        self._files = connection.files
        super().__init__(connection)

    def execute(self, *arguments: Any, **options: Any) -> apsw.Cursor:
        with self._files.call("execute"):
            return super().execute(*arguments, **options)

    def executemany(self, *arguments: Any, **options: Any) -> apsw.Cursor:
        with self._files.call("execute"):
            return super().executemany(*arguments, **options)

    def __next__(self) -> Any:
        with self._files.undisturbed_call():
            return super().__next__()

    def fetchall(self) -> list[Any]:
        return list(self)

    def fetchone(self) -> Any:
        return next(self, None)

    @property
    def get(self) -> Any:
        with self._files.undisturbed_call():
            return super().get


class _Files(apsw.VFS):
    """The file system that SQLite uses until the disk crashes.

    After the crash, no file can be opened. The other operations do nothing and report success:
    SQLite calls them while it unwinds, and when a forgotten connection is garbage-collected, where
    errors cannot be raised.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.name = f"simulated-{next(_numbers)}"
        self.disk = disk
        self._life = disk.life
        self._scratch = tempfile.mkdtemp(prefix="lakebed-databases-")
        self._scratch_names: dict[str, str] = {}
        self.remove_scratch = weakref.finalize(self, shutil.rmtree, self._scratch, True)
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        super().__init__(self.name, "unix")

    @property
    def is_over(self) -> bool:
        return self._life != self.disk.life or self.disk.is_down

    def check(self, what: str) -> None:
        if self.is_over:
            raise SimulatedCrash(f"{what} that was opened before the crash was used after it")

    def close_connections(self) -> None:
        """Closes the connections if the disk has crashed since they were opened. If they were
        closed at interpreter exit, they would call Python code that no longer exists.
        """
        if self.is_over:
            for connection in list(self.connections):
                apsw.Connection.close(connection, True)

    @contextlib.contextmanager
    def call(self, label: str) -> Iterator[None]:
        """Wraps one call into SQLite, and lets another simulated thread run before it."""
        self.check("a connection")
        if self.disk.scheduler is not None:
            self.disk.scheduler.pause("sqlite", label)
        with self.undisturbed_call():
            yield

    @contextlib.contextmanager
    def undisturbed_call(self) -> Iterator[None]:
        """Wraps one call into SQLite. If the disk crashes during the call, raises
        `SimulatedCrash`.
        """
        self.check("a connection")
        try:
            yield
        except apsw.Error:
            self.check("a connection")
            raise
        self.check("a connection")

    @contextlib.contextmanager
    def operation(self, code: int) -> Iterator[None]:
        """Wraps a disk operation that SQLite requests. If it fails, SQLite gets the error `code`,
        or FULL if the disk is full.
        """
        try:
            with self.disk.undisturbed():
                yield
        except NoSpace as error:
            raise apsw.exception_for(apsw.SQLITE_FULL) from error
        except LakebedError as error:
            raise apsw.exception_for(code) from error

    def scratch_path(self, path: str) -> str:
        name = self._scratch_names.setdefault(path, f"{len(self._scratch_names)}.db")
        return os.path.join(self._scratch, name)

    # What SQLite calls. The names are its own.

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return os.path.normpath(os.path.join("/", name))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Any:  # noqa: N802
        if name is None or flags[0] & _TEMPORARY:
            return super().xOpen(name, flags)
        path = name if isinstance(name, str) else name.filename()
        self.check("a file system")
        with self.operation(apsw.SQLITE_CANTOPEN):
            if not self.disk.faults.read_only:
                return _File(self, _open(self.disk, path, flags[0]), flags)
            opened = _File(self, self.disk.open(path), flags)
        flags[1] = flags[0] & ~apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_READONLY
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self.is_over:
            return
        with self.operation(apsw.SQLITE_IOERR_DELETE):
            try:
                self.disk.unlink(filename)
            except NotFound as error:
                raise apsw.exception_for(apsw.SQLITE_IOERR_DELETE_NOENT) from error
        if syncdir:
            with self.operation(apsw.SQLITE_IOERR_DIR_FSYNC):
                self.disk.sync_folder(os.path.dirname(filename))

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        if self.is_over:
            return False
        with self.disk.undisturbed(), contextlib.suppress(LakebedError):
            if flags != apsw.SQLITE_ACCESS_EXISTS or self.disk.is_folder(pathname):
                return self.disk.exists(pathname)
            return self.disk.open(pathname).size() > 0  # to SQLite, an empty file does not exist
        return False

    def xSleep(self, microseconds: int) -> int:  # noqa: N802
        return microseconds


class _File(apsw.VFSFile):
    """An open file of SQLite: its bytes are on the simulated disk, its locks on a real scratch
    file.
    """

    def __init__(self, files: _Files, file: SimulatedFile, flags: list[int]) -> None:
        self._files = files
        self._file = file
        # Like SQLite on Linux: the first sync of a new journal or WAL also syncs the folder.
        self._syncs_folder = bool(flags[0] & _JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("unix", files.scratch_path(file.path), [_SCRATCH_FLAGS, 0])
        flags[1] = flags[0]

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._files.is_over:
            return b""
        with self._files.operation(apsw.SQLITE_IOERR_READ):
            return self._file.pread(offset, amount)

    def xWrite(self, data: Buffer, offset: int) -> None:  # noqa: N802
        if not self._files.is_over:
            with self._files.operation(apsw.SQLITE_IOERR_WRITE):
                self._file.pwrite(offset, data)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if not self._files.is_over:
            with self._files.operation(apsw.SQLITE_IOERR_TRUNCATE):
                if newsize:
                    self._file.truncate(newsize)
                else:
                    self._file.empty()

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        if self._files.is_over:
            return
        with self._files.operation(apsw.SQLITE_IOERR_FSYNC):
            try:
                self._file.sync()
            except LakebedError:
                self._file = self._file.reopened()
                raise
            if self._syncs_folder:
                self._syncs_folder = False
                with contextlib.suppress(LakebedError):
                    self._files.disk.sync_folder(os.path.dirname(self._file.path))

    def xFileSize(self) -> int:  # noqa: N802
        return 0 if self._files.is_over else self._file.size()

    def xClose(self) -> None:  # noqa: N802
        super().xClose()
        if not self._files.is_over:
            with self._files.disk.undisturbed(), contextlib.suppress(LakebedError):
                self._file.close()

    def xSectorSize(self) -> int:  # noqa: N802
        return _SECTOR_BYTES

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return _CHARACTERISTICS


def _open(disk: SimulatedDisk, path: str, flags: int) -> SimulatedFile:
    if flags & apsw.SQLITE_OPEN_CREATE and not disk.exists(path):
        return disk.create(path)
    return disk.open(path, writable=bool(flags & apsw.SQLITE_OPEN_READWRITE))
