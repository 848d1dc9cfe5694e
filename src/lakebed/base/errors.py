"""All errors of the store, in a class tree by what the caller can do about them.

    LakebedError
    ├── InputError          fix the call and try again; nothing was changed
    │   ├── BadConfig       a setting is unknown, of the wrong type, or out of range
    │   ├── BadName         a name is not allowed (empty, too long, leaves its folder …)
    │   ├── TooLarge        more bytes, records or levels than the maximum
    │   ├── NotFound        the named object does not exist
    │   └── AlreadyExists   the object to create already exists
    ├── RetryError          nothing is wrong with the call; wait and try again
    │   ├── Busy            something is in use or at its limit, or the call timed out
    │   ├── Locked          the store is locked, by another process or in this one
    │   ├── NoSpace         the disk or a quota is full, or free space is below the reserve
    │   └── TooManyFiles    no file descriptor is left: nothing was read or written
    ├── OutcomeUnknown      the call may or may not take effect; check before repeating it
    ├── DataError           data on disk is not valid; repair or restore it
    │   ├── Torn            an unfinished write at the end of a file: can be cut off
    │   ├── Corrupt         damage in the middle of data: reported, never cut off silently
    │   └── UnknownVersion  a format version that this program cannot read
    ├── DiskError           a file operation failed, for example because of a bad disk
    │   ├── WriteFailed     a write, rename, unlink … failed and was not acknowledged
    │   ├── SyncFailed      fsync failed: the bytes it covered may never become durable
    │   └── Poisoned        writes are refused because of an earlier failure
    └── Closed              the object was closed, or was opened before a fork

An error that only one module raises is defined in that module, as a subclass of one of these.

The message of an error is one line. Some classes, such as `TooLarge`, `DataError` and `DiskError`,
also have the details as attributes. The command line prints the message and exits with `exit_code`,
a number from sysexits.h.
"""

from __future__ import annotations

import errno
import os
from typing import ClassVar


class LakebedError(Exception):
    """The base class of all errors of Lakebed. `str(error)` is one line for people to read."""

    exit_code: ClassVar[int] = 70


class InputError(LakebedError):
    """The call is not valid, and nothing was changed."""

    exit_code = 64


class BadConfig(InputError):
    """The configuration is not valid: for example, a setting is unknown, of the wrong type, or out
    of range.
    """

    exit_code = 78


class BadName(InputError):
    """The name is not allowed, for example because it is empty or too long."""


class TooLarge(InputError):
    """A size or count is above the maximum."""

    def __init__(self, what: str, *, size: int | None, limit: int) -> None:
        excess = "above the maximum of" if size is None else f"{size}, the maximum is"
        super().__init__(f"{what} is {excess} {limit}")
        self.size = size  # None if it was not measured
        self.limit = limit


class NotFound(InputError):
    """The named object does not exist."""

    exit_code = 66


class AlreadyExists(InputError):
    """The object to create already exists."""

    exit_code = 73


class RetryError(LakebedError):
    """The call is valid but cannot be executed now; wait and try again."""

    exit_code = 75


class Busy(RetryError):
    """Something is in use or at its limit, for example a queue is full; or the call timed out
    before it was executed.
    """


class Locked(RetryError):
    """The lock of a store is held by another process, or by another object in this process."""


class NoSpace(RetryError):
    """The disk or a quota is full, a file would exceed the maximum size of a file, or the write
    would leave less free space than the reserve.
    """


class TooManyFiles(RetryError):
    """The process or the machine has no file descriptors left; nothing was read or written.

    Raise the limit with `ulimit -n`, or with `LimitNOFILE=` in a systemd service.
    """


class OutcomeUnknown(LakebedError):
    """The call was started, but it is not known whether it took or will take effect.

    Repeating the call may execute it twice: check first, or wait for the result again.
    """

    exit_code = 74


class DataError(LakebedError):
    """Data on disk is not valid. The error has the file, the position, what was expected and what
    was found, each None if not known.
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
    """The data ends inside a record, as after an unfinished write, and nothing valid follows."""


class Corrupt(DataError):
    """The data is damaged: for example, a bad record is followed by good ones, or data that must
    not change has changed.
    """


class UnknownVersion(DataError):
    """The data has a format version that this program cannot read."""


class DiskError(LakebedError):
    """A file operation on `path` failed. `code` is the errno, or None if there is none."""

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
    """A write, rename, unlink or other change failed, and was not acknowledged."""


class SyncFailed(DiskError):
    """A sync failed. Do not retry it: the next sync may "succeed" without writing the bytes."""


class Poisoned(DiskError):
    """Writes are refused because of an earlier failure, such as a failed sync; open the object
    again.
    """


class Closed(LakebedError):
    """The object was used after it was closed, or in a process forked after it was opened."""


_READING = frozenset({"open", "stat", "read", "list", "map", "lock"})
_NAMING = frozenset({"create", "open", "rename"})
_TOO_MANY_CODES = frozenset({errno.EMFILE, errno.ENFILE})
NO_SPACE_CODES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def from_os_error(error: OSError, *, operation: str, path: str | os.PathLike[str]) -> LakebedError:
    """Returns the `LakebedError` for an `OSError` that a file operation raised."""
    code = error.errno
    where = os.fspath(path)
    if operation in ("fsync", "fdatasync"):
        return SyncFailed(operation, where, code=code)
    if code == errno.ENOENT:
        return NotFound(f"{where}: no such file or folder")
    if code == errno.EEXIST:
        return AlreadyExists(f"{where}: already exists")
    if code in NO_SPACE_CODES:
        return NoSpace(f"{where}: {operation}: {os.strerror(code or 0)}")
    if code in _TOO_MANY_CODES:
        return TooManyFiles(f"{where}: {operation}: {os.strerror(code or 0)}")
    if code == errno.ENAMETOOLONG or (code == errno.EINVAL and operation in _NAMING):
        return BadName(f"{where}: {os.strerror(code)}")
    kind = DiskError if operation in _READING else WriteFailed
    return kind(operation, where, code=code)
