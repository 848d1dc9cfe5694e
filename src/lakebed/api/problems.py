"""Errors as problem documents (RFC 9457), and problem documents as the same errors again.

A document has the members `type`, `title`, `status`, `detail`, and of our own: `code`, which names
the error for programs; `advice`, what the caller can do; `facts`, what the error carries; and
`request_id`. Whoever reads one gets an error of the same class, with the same text and facts.
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
    """No access key, a wrong one, or one that is disabled."""


class CrossSite(errors.InputError):
    """The request came from a page of another site, or by a name that is not the node's."""


class Unreachable(errors.RetryError):
    """Nobody answers: the store's writer is not there, or was lost on the way.

    Whether the call was carried out is not known, unless it says so.
    """


class Refused(errors.InputError):
    """A call that is none: no such path or method, a body of the wrong kind, a bad query."""


class FileGone(errors.NotFound):
    """What is there has no such file, or not any more: list its files again."""


def code_of(kind: type[LakebedError]) -> str:
    """`no-such-key` of `NoSuchKey`."""
    return _WORD.sub("-", kind.__name__).lower()


def _below(kind: type[LakebedError]) -> Iterator[type[LakebedError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _below(one)


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
"""Of an error that is not here, that of the class above it."""

ADVICE: Final[Mapping[type[LakebedError], str]] = {
    Unauthenticated: "send an access key of the store and its secret (HTTP Basic)",
    CrossSite: "send the request from a program or a page of the node, by a name of the node",
    FileGone: "list the files again: there may be others by now",
    errors.InputError: "mend the call; nothing was changed",
    errors.RetryError: "wait and try again",
    errors.NoSpace: "make room on the disk, then try again",
    errors.OutcomeUnknown: "it may still be done: look whether it was before you repeat it",
    aof_errors.NotDurableYet: "the records are queued: flush up to the last of the record_ids "
    "among the facts, and do not append them again",
    errors.DataError: "bytes on disk are damaged: verify, then repair or restore",
    errors.DiskError: "the disk refused: look at it; what was acknowledged is safe",
    errors.Closed: "the store is being closed, or the thing was deleted: open it again",
    stroma_errors.StaleLease: "the lease is over: lease again",
    keratin_errors.OutOfOrderSequence: "send what is missing first",
    keratin_errors.PartlyAppended: "send again only what is not among the facts as appended, and "
    "after an error of the disk only what is not there",
    keratin_errors.CodecMissing: "install lakebed[codecs] where the store is open",
    keratin_errors.ProducerFenced: "another producer has taken over: begin with a new id",
    LakebedError: "look at the server's log",
}

RETRY_AFTER_S: Final[Mapping[int, int]] = {429: 1, 503: 1, 507: 5}


def _lookup(table: Mapping[type[LakebedError], Any], kind: type[LakebedError]) -> Any:
    for one in kind.__mro__:
        if one in table:
            return table[one]
    raise AssertionError("the root has an entry in every table")


def status_of(error: LakebedError) -> int:
    status: int = _lookup(STATUSES, type(error))
    return status


def problem_of(error: LakebedError, *, request_id: str = "") -> dict[str, Any]:
    """The document that tells an error."""
    kind = type(error)
    return {
        "type": TYPE_PREFIX + code_of(kind),
        "title": (kind.__doc__ or kind.__name__).strip().partition("\n")[0].rstrip("."),
        "status": status_of(error),
        "detail": str(error),
        "code": code_of(kind),
        "advice": _lookup(ADVICE, kind),
        "facts": _facts(error),
        "request_id": request_id,
    }


def error_of(document: Mapping[str, Any]) -> LakebedError:
    """The error that a document tells; of an unknown code, the one its status is nearest to."""
    code, detail = str(document.get("code", "")), str(document.get("detail", ""))
    kind = _kinds().get(code) or _kind_of_status(document.get("status"))
    error = kind.__new__(kind)  # its own way to be made has arguments that are not told
    Exception.__init__(error, detail or "the server told no more")
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
        return [_plain(one) for one in value]
    return str(value)


def _restored(error: LakebedError, name: str, value: Any) -> object:
    if isinstance(error, aof_errors.WouldBlock) and name == "kind":
        return aof_errors.BackpressureKind(value)
    if isinstance(error, aof_errors.WouldBlock | aof_errors.NotDurableYet) and name == "record_ids":
        return [RecordId(one) for one in value]
    if isinstance(error, stroma_errors.StaleLease) and name == "ranges":
        return tuple((start, end) for start, end in value)
    if isinstance(error, keratin_errors.PartlyAppended) and name == "appended":
        names = keratin_errors.AppendedPart._fields
        return tuple(keratin_errors.AppendedPart(*(one[name] for name in names)) for one in value)
    return value


def _kinds() -> dict[str, type[LakebedError]]:
    """Those of the base come before others of the same name."""
    found = {code_of(one): one for one in _below(LakebedError) if one.__module__ in _NAMES}
    mine = [one for one in vars(errors).values() if isinstance(one, type)]
    return found | {code_of(one): one for one in mine if issubclass(one, LakebedError)}


def _kind_of_status(status: object) -> type[LakebedError]:
    for kind, known in STATUSES.items():
        if known == status:
            return kind
    return errors.InputError if isinstance(status, int) and 400 <= status < 500 else LakebedError
