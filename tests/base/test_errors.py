"""One root, one line, one exit code; the operating system's errors are translated once."""

from __future__ import annotations

import errno
import inspect
import os

import pytest

from lakebed.base import errors
from lakebed.base.errors import (
    AlreadyExists,
    BadName,
    Corrupt,
    DiskError,
    LakebedError,
    NoSpace,
    NotFound,
    SyncFailed,
    TooLarge,
    WriteFailed,
    from_os_error,
)

CLASSES = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if value.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_is_drawn_in_the_tree_and_has_the_one_root(kind: type[LakebedError]) -> None:
    assert issubclass(kind, LakebedError)
    assert kind.__name__ in (errors.__doc__ or "")
    assert 64 <= kind.exit_code <= 78


@pytest.mark.parametrize(
    ("operation", "code", "kind"),
    [
        ("fsync", errno.EIO, SyncFailed),
        ("fdatasync", errno.ENOSPC, SyncFailed),
        ("open", errno.ENOENT, NotFound),
        ("create", errno.EEXIST, AlreadyExists),
        ("write", errno.ENOSPC, NoSpace),
        ("write", errno.EDQUOT, NoSpace),
        ("create", errno.ENAMETOOLONG, BadName),
        ("write", errno.EIO, WriteFailed),
        ("open", errno.EACCES, DiskError),
        ("read", errno.EIO, DiskError),
    ],
)
def test_an_os_error_becomes_what_the_caller_can_act_on(
    operation: str, code: int, kind: type[LakebedError]
) -> None:
    error = from_os_error(OSError(code, ""), operation=operation, path="some/file")
    assert type(error) is kind
    assert str(error).startswith("some/file: ")
    assert kind in (NotFound, AlreadyExists) or os.strerror(code) in str(error)


def test_a_data_error_says_where_what_and_carries_it() -> None:
    error = Corrupt("bad checksum", path="a.seg", offset=64, expected="0x1", found="0x2")
    assert str(error) == "a.seg: at byte 64: bad checksum, expected 0x1, found 0x2"
    assert (error.path, error.offset, error.expected, error.found) == ("a.seg", 64, "0x1", "0x2")


def test_too_large_says_both_numbers() -> None:
    assert str(TooLarge("the payload", size=9, limit=8)) == "the payload is 9, the maximum is 8"
