"""Converts errors to problem documents (RFC 9457), and problem documents back to the same errors.

A document has the standard members `type`, `title`, `status` and `detail`, and these members of our
own: `code`, which identifies the error for programs; `advice`, which states what the caller can do;
`facts`, which has the attributes of the error; and `request_id`. The client raises an error of the
same class, with the same text and attributes. If the client does not know the code, it raises the
first class in `STATUSES` with the same status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from lakebed.aof import errors as aof_errors
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers import errors as tier_errors
from lakebed.base import errors
from lakebed.base.errors import LakebedError
from lakebed.keratin import errors as keratin_errors
from lakebed.seglake import errors as seglake_errors
from lakebed.stroma import errors as stroma_errors

TYPE_PREFIX: Final = "urn:lakebed:problem:"

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Unauthenticated(errors.InputError):
    """The access key is missing, wrong or disabled.

    The client also raises it if the permissions of the local socket do not allow a connection.
    """


class CrossSite(errors.InputError):
    """The request came from a web page of another site, or its Host is not a name of this node."""


class Unreachable(errors.RetryError):
    """The process that has the store open does not respond, or the connection was lost.

    Unless the message states otherwise, it is unknown whether the call was carried out.
    """


class Refused(errors.InputError):
    """The request is not valid, for example because of an unknown path or method, a wrong media
    type or a bad query."""


class FileGone(errors.NotFound):
    """The file does not exist, or was removed. List the files again."""


def code_of(kind: type[LakebedError]) -> str:
    """Returns the code of an error class, such as `no-such-key` for `NoSuchKey`."""
    return _WORD.sub("-", kind.__name__).lower()


def _below(kind: type[LakebedError]) -> Iterator[type[LakebedError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _below(subclass)


_MODULES = (errors, aof_errors, tier_errors, keratin_errors, stroma_errors, seglake_errors)
_NAMES = {module.__name__ for module in _MODULES} | {__name__, "lakebed.api.media"}

STATUSES: Final[Mapping[type[LakebedError], int]] = {
    Unauthenticated: 401,
    CrossSite: 403,
    seglake_errors.ReservedBucket: 403,
    errors.TooLarge: 413,
    errors.NotFound: 404,
    keratin_errors.OffsetOutOfRange: 416,
    seglake_errors.BadRange: 416,
    seglake_errors.PreconditionFailed: 412,
    errors.AlreadyExists: 409,
    seglake_errors.BucketNotEmpty: 409,
    seglake_errors.BadState: 409,
    seglake_errors.MethodNotAllowed: 405,
    keratin_errors.ProducerFenced: 409,
    keratin_errors.OutOfOrderSequence: 409,
    stroma_errors.StaleLease: 409,
    errors.InputError: 400,
    errors.Busy: 429,
    errors.NoSpace: 507,
    errors.RetryError: 503,
    errors.OutcomeUnknown: 504,
    aof_errors.NotDurableYet: 504,
    keratin_errors.CodecMissing: 501,
    tier_errors.Tier2Error: 502,
    errors.DataError: 500,
    errors.DiskError: 500,
    errors.Closed: 503,
    keratin_errors.PartlyAppended: 500,
    LakebedError: 500,
}
"""The HTTP status by error class. A class without an entry has the status of its base class."""

ADVICE: Final[Mapping[type[LakebedError], str]] = {
    Unauthenticated: "send an access key of the store and its secret (HTTP Basic)",
    CrossSite: "send the request from a program or a page of the node, to a name of the node",
    FileGone: "list the files again: they may have changed",
    errors.InputError: "fix the request; nothing was changed",
    errors.RetryError: "wait and try again",
    errors.NoSpace: "free space on the disk, then try again",
    errors.OutcomeUnknown: "the call may have taken effect: check before you repeat it",
    aof_errors.NotDurableYet: "the records are queued: flush up to the last of the record_ids "
    "among the facts, and do not append them again",
    errors.DataError: "data on disk is damaged: verify, then repair or restore",
    errors.DiskError: "the disk failed: check it; acknowledged data is safe",
    errors.Closed: "the store is closing, or what you use was deleted: open it again",
    stroma_errors.StaleLease: "the lease has ended: lease again",
    keratin_errors.OutOfOrderSequence: "send the missing messages first",
    keratin_errors.PartlyAppended: "send again only what the facts do not list as appended; "
    "after a disk error, check first what was stored",
    keratin_errors.CodecMissing: "install lakebed[codecs] where the store is open",
    keratin_errors.ProducerFenced: "another producer has taken over: start with a new id",
    LakebedError: "see the server's log",
}

RETRY_AFTER_S: Final[Mapping[int, int]] = {429: 1, 503: 1, 507: 5}


def _lookup(table: Mapping[type[LakebedError], Any], kind: type[LakebedError]) -> Any:
    for base in kind.__mro__:
        if base in table:
            return table[base]
    raise AssertionError("`LakebedError` must have an entry in every table")


def status_of(error: LakebedError) -> int:
    status: int = _lookup(STATUSES, type(error))
    return status


def problem_of(error: LakebedError, *, request_id: str = "") -> dict[str, Any]:
    """Converts an error to a problem document."""
    kind = type(error)
    return {
        "type": TYPE_PREFIX + code_of(kind),
        "title": _title(kind),
        "status": status_of(error),
        "detail": str(error),
        "code": code_of(kind),
        "advice": _lookup(ADVICE, kind),
        "facts": _facts(error),
        "request_id": request_id,
    }


def _title(kind: type[LakebedError]) -> str:
    """Returns the first sentence of the class's docstring."""
    text = " ".join((kind.__doc__ or kind.__name__).split())
    return text.partition(". ")[0].rstrip(".")


def error_of(document: Mapping[str, Any]) -> LakebedError:
    """Converts a problem document to an error.

    The class of the error is found by the code, or by the status if the code is not known.
    """
    code, detail = str(document.get("code", "")), str(document.get("detail", ""))
    kind = _kinds().get(code) or _kind_of_status(document.get("status"))
    error = kind.__new__(kind)  # its own constructor needs arguments that the document lacks
    Exception.__init__(error, detail or "the server sent no error message")
    facts = document.get("facts")
    for name, value in facts.items() if isinstance(facts, dict) else ():
        setattr(error, name, _restored(error, name, value))
    return error


def _facts(error: LakebedError) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, keratin_errors.AppendedPart):
        return value._asdict()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def _restored(error: LakebedError, name: str, value: Any) -> object:
    if isinstance(error, aof_errors.WouldBlock) and name == "kind":
        return aof_errors.BackpressureKind(value)
    if isinstance(error, aof_errors.WouldBlock | aof_errors.NotDurableYet) and name == "record_ids":
        return [RecordId(item) for item in value]
    if isinstance(error, stroma_errors.StaleLease) and name == "ranges":
        return tuple((start, end) for start, end in value)
    if isinstance(error, keratin_errors.PartlyAppended) and name == "appended":
        names = keratin_errors.AppendedPart._fields
        return tuple(keratin_errors.AppendedPart(*(item[name] for name in names)) for item in value)
    return value


def _kinds() -> dict[str, type[LakebedError]]:
    """Returns the error classes by code. If two have the same code, the class of `lakebed.base` is
    used."""
    kinds = {code_of(kind): kind for kind in _below(LakebedError) if kind.__module__ in _NAMES}
    base = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return kinds | {code_of(kind): kind for kind in base if issubclass(kind, LakebedError)}


def _kind_of_status(status: object) -> type[LakebedError]:
    for kind, status_of_kind in STATUSES.items():
        if status_of_kind == status:
            return kind
    return errors.InputError if isinstance(status, int) and 400 <= status < 500 else LakebedError
