"""Every error the store raises, as one tree whose branches show what the caller can do.

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

An error carries its facts as attributes and states them in one line: that line is what the
command line prints, and `exit_code` is what it exits with (the numbers of sysexits.h).
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar


class LakebedError(Exception):
    """The root. `str(error)` is one line for people to read."""

    exit_code: ClassVar[int] = 70


class InputError(LakebedError):
    """The call is not valid as given; nothing was changed."""

    exit_code = 64


class BadConfig(InputError):
    """A setting is unknown, of the wrong kind, or out of its range."""

    exit_code = 78


class BadName(InputError):
    """The name cannot be used here."""


class TooLarge(InputError):
    """More than the stated maximum."""

    def __init__(self, what: str, *, size: int, limit: int) -> None:
        super().__init__(f"{what} is {size}, the maximum is {limit}")
        self.size = size
        self.limit = limit


class NotFound(InputError):
    """The thing named does not exist."""

    exit_code = 66


class AlreadyExists(InputError):
    """The thing to create is there already."""

    exit_code = 73


class RetryError(LakebedError):
    """Wait and try again."""

    exit_code = 75


class Busy(RetryError):
    """A bounded queue is full, or a time-out passed before the work was done."""


class Locked(RetryError):
    """Another process, or another opener in this one, holds the lock."""


class NoSpace(RetryError):
    """The disk is full, or its free space is below the reserve."""


class TooManyFiles(RetryError):
    """This process, or the machine, has no file descriptor left; nothing was read or written.

    Raise the limit with `ulimit -n`, or `LimitNOFILE=` of a service.
    """


class OutcomeUnknown(LakebedError):
    """The work was started, and it is not known whether it is or will be done.

    Repeating it may do it twice: check first, or wait for it again.
    """

    exit_code = 74


class DataError(LakebedError):
    """Bytes on disk are not as they must be. Carries the position, what was expected and what
    was found.
    """

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
    """Damage: a bad record with good ones after it, or a bad byte in sealed data."""


class UnknownVersion(DataError):
    """Written in a version this program does not read."""


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
    """An operation other than a sync failed; it was not acknowledged."""


class SyncFailed(DiskError):
    """A sync failed. It must not be retried: the next one may "succeed" without the bytes."""


class Poisoned(DiskError):
    """The file failed earlier and takes no more writes; open a new one."""


class Closed(LakebedError):
    """Used after close, or in a child process forked after the open."""


_READING = frozenset({"open", "stat", "read", "list", "map", "lock"})
_NAMING = frozenset({"create", "open", "rename"})
_TOO_MANY_CODES = frozenset({errno.EMFILE, errno.ENFILE})
NO_SPACE_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def from_os_error(error: OSError, *, operation: str, path: str | os.PathLike[str]) -> LakebedError:
    """Translates an operating-system error. This is the only place that does."""
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
