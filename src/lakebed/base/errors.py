"""Every error the store raises, as one tree whose branches say what the caller can do.

    LakebedError
    ├── InputError          fix the call and try again; nothing was changed
    │   ├── BadConfig       a setting is unknown, of the wrong kind, or out of its range
    │   ├── BadName         a name that cannot be used (empty, too long, leaves its folder …)
    │   ├── TooLarge        more bytes, records or levels than the stated maximum
    │   ├── NotFound        the thing named does not exist
    │   └── AlreadyExists   the thing to create is there already
    ├── RetryError          nothing is wrong with the call; wait and try again
    │   ├── Busy            a bounded queue is full, or a time-out passed
    │   ├── Locked          another process or opener holds the lock
    │   ├── NoSpace         the disk is full, or below its reserve
    │   └── TooManyFiles    no file descriptor is left: nothing was read or written
    ├── OutcomeUnknown      it was begun and may still be done; look before doing it again
    ├── DataError           bytes on disk are not what they must be; repair or restore
    │   ├── Torn            an unfinished write at the end of a file: can be cut
    │   ├── Corrupt         damage in the middle of data: reported, never cut silently
    │   └── UnknownVersion  written by a newer version, or one no longer read
    ├── DiskError           the device or the file system refused; acknowledged data is safe
    │   ├── WriteFailed     a write, rename, unlink … failed and was not acknowledged
    │   ├── SyncFailed      fsync failed: what it covered is not durable and never will be
    │   └── Poisoned        the file takes no more writes since an earlier failure
    └── Closed              the object was closed, or opened before a fork

Errors that belong to one module alone stand there, below these.

An error carries its facts as attributes and says them in one line: that line is what the
command line prints, and `exit_code` is what it exits with (the numbers of sysexits.h).
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar


class LakebedError(Exception):
    """The root of all errors. `str(error)` is one line for a person to read."""

    exit_code: ClassVar[int] = 70


class InputError(LakebedError):
    """The call is not valid as given. Nothing was changed."""

    exit_code = 64


class BadConfig(InputError):
    """A setting is unknown, has the wrong type, or is out of range."""

    exit_code = 78


class BadName(InputError):
    """The name is not valid here."""


class TooLarge(InputError):
    """The value exceeds its stated maximum."""

    def __init__(self, what: str, *, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size}, the maximum is {limit}")
        self.size = size
        self.limit = limit


class NotFound(InputError):
    """The named thing does not exist."""

    exit_code = 66


class AlreadyExists(InputError):
    """The thing to create exists already."""

    exit_code = 73


class RetryError(LakebedError):
    """A temporary condition. Wait and try again."""

    exit_code = 75


class Busy(RetryError):
    """A bounded queue is full, or a timeout passed before the work was done."""


class Locked(RetryError):
    """Another process, or another store object in this process, holds the lock."""


class NoSpace(RetryError):
    """The disk is full, or its free space is below the reserve."""


class TooManyFiles(RetryError):
    """No file descriptor is left in this process or on the machine. Nothing was read or written.

    Raise the limit with `ulimit -n`, or `LimitNOFILE=` of a service.
    """


class OutcomeUnknown(LakebedError):
    """The work was started, and it is not known whether it is or will be done.

    Repeating it could do it twice: check first, or wait for it again.
    """

    exit_code = 74


class DataError(LakebedError):
    """Bytes on disk are not valid. Carries the location, the expected value and the actual one."""

    exit_code = 65

    def __init__(
        self,
        problem: str,
        *,
        path: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        expected: object = None,
        found: object = None,
    ) -> None:
        place = "" if path is None else f"{os.fspath(path)}: "
        if offset is not None:
            place += f"at byte {offset}: "
        facts = "" if expected is None else f", expected {expected}"
        facts += "" if found is None else f", found {found}"
        super().__init__(f"{place}{problem}{facts}")
        self.problem = problem
        self.path = path
        self.offset = offset
        self.expected = expected
        self.found = found


class Torn(DataError):
    """An unfinished write at the end of the data, with nothing valid after it."""


class Corrupt(DataError):
    """Stored data is damaged: a bad record before good ones, or a bad byte in sealed data."""


class UnknownVersion(DataError):
    """The data was written in a version that this program does not read."""


class DiskError(LakebedError):
    """The device or the file system refused an operation on `path`."""

    exit_code = 74

    def __init__(
        self,
        operation: str,
        path: str | os.PathLike[str],
        *,
        code: int | None = None,
        why: str = "",
    ) -> None:
        reason = why or (os.strerror(code) if code is not None else "failed")
        super().__init__(f"{os.fspath(path)}: {operation}: {reason}")
        self.operation = operation
        self.path = path
        self.code = code


class WriteFailed(DiskError):
    """An operation other than a sync failed. It was not acknowledged."""


class SyncFailed(DiskError):
    """A sync failed. It must not be repeated: the next one may succeed without writing the data."""


class Poisoned(DiskError):
    """The file failed earlier and takes no more writes. Open a new one."""


class Closed(LakebedError):
    """The object was used after close, or in a child process forked after it was opened."""


_READING = frozenset({"open", "stat", "read", "list", "map", "lock"})
_NAMING = frozenset({"create", "open", "rename"})
_TOO_MANY_CODES = frozenset({errno.EMFILE, errno.ENFILE})
NO_SPACE_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def from_os_error(error: OSError, *, operation: str, path: str | os.PathLike[str]) -> LakebedError:
    """Translate an operating-system error, in the one place where that is done."""
    code = error.errno
    where = os.fspath(path)
    if operation in ("fsync", "fdatasync"):
        return SyncFailed(operation, where, code=code)
    if code == errno.ENOENT:
        return NotFound(f"{where}: no such file or folder")
    if code == errno.EEXIST:
        return AlreadyExists(f"{where}: exists already")
    if code in NO_SPACE_CODES:
        return NoSpace(f"{where}: {operation}: {os.strerror(code or 0)}")
    if code in _TOO_MANY_CODES:
        return TooManyFiles(f"{where}: {operation}: {os.strerror(code or 0)}")
    if code == errno.ENAMETOOLONG or (code == errno.EINVAL and operation in _NAMING):
        return BadName(f"{where}: {os.strerror(code)}")
    kind = DiskError if operation in _READING else WriteFailed
    return kind(operation, where, code=code)
