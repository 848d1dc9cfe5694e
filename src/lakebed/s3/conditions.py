"""The condition headers of reads, writes and deletes.

ETags may be quoted or not. A weak ETag keeps its prefix `W/` and therefore never matches, because
the conditions need identical bytes. Only `If-None-Match` of a read ignores the prefix.
`If-Modified-Since` and `If-Unmodified-Since` are ignored if their date is invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

from lakebed.s3.errors import S3Error
from lakebed.s3.unsupported import not_implemented
from lakebed.seglake.conditions import ReadCondition
from lakebed.seglake.model import NO_CONDITION, Condition, ObjectInfo

COPY_SOURCE: Final = "x-amz-copy-source-"

_MS_PER_S: Final = 1000
_ANY: Final = "*"
_NOT_FOR_DELETES: Final = ("if-none-match", "if-modified-since", "if-unmodified-since")


def read_condition(headers: Mapping[str, str], start: str = "") -> ReadCondition | None:
    """Returns the condition of a read, or None if the request has no condition headers.

    `start` is a prefix of the header names: `COPY_SOURCE` for the source of a copy.
    """
    match = headers.get(start + "if-match")
    none_match = headers.get(start + "if-none-match")
    modified = headers.get(start + "if-modified-since")
    unmodified = headers.get(start + "if-unmodified-since")
    if match is none_match is modified is unmodified is None:
        return None
    return ReadCondition(
        if_match=() if match is None else _etags(match),
        if_none_match=() if none_match is None else _etags(none_match, is_weak=True),
        if_modified_since_ms=_date_ms(modified),
        if_unmodified_since_ms=_date_ms(unmodified),
    )


def write_condition(headers: Mapping[str, str]) -> Condition:
    """Returns the condition that the current object must meet for a write to succeed.

    Raises the S3 error `NotImplemented` if `If-None-Match` is not `*`, or `If-Match` has several
    ETags.
    """
    match, none_match = headers.get("if-match"), headers.get("if-none-match")
    if match is None and none_match is None:
        return NO_CONDITION
    if none_match is not None and none_match.strip() != _ANY:
        raise _not_implemented("If-None-Match")
    return Condition(
        if_match=None if match is None else _single_etag(match),
        if_none_match=None if none_match is None else _ANY,
    )


def delete_condition(headers: Mapping[str, str]) -> Condition:
    """Returns the condition that an object must meet to be deleted.

    Raises the S3 error `NotImplemented` for a condition other than `If-Match`, and if `If-Match`
    has several ETags.
    """
    for name in _NOT_FOR_DELETES:
        if name in headers:
            raise _not_implemented(name)
    return etag_condition(headers.get("if-match"))


def etag_condition(value: str | None) -> Condition:
    """Returns the condition that an object has the ETag `value`, or no condition if that is None.

    `value` has the form of an `If-Match` header; `*` means any ETag. Raises the S3 error
    `NotImplemented` if it has several ETags.
    """
    return NO_CONDITION if value is None else Condition(if_match=_single_etag(value))


def range_applies(headers: Mapping[str, str], info: ObjectInfo) -> bool:
    """Returns whether the header `Range` applies: there is no `If-Range`, or it matches `info`."""
    value = headers.get("if-range")
    if value is None:
        return True
    moment_ms = _date_ms(value)
    if moment_ms is not None:
        return moment_ms // _MS_PER_S == info.modified_ms // _MS_PER_S
    return _etags(value) == (info.etag,)


def _single_etag(value: str) -> str:
    etags = _etags(value)
    if len(etags) > 1:
        raise _not_implemented("If-Match")
    return etags[0]


def _etags(value: str, *, is_weak: bool = False) -> tuple[str, ...]:
    """Splits a header into ETags without quotes; malformed ones are kept and match no object.

    With `is_weak`, removes the prefix `W/` of weak ETags.
    """
    etags = []
    for item in value.split(","):
        etag = item.strip()
        if is_weak:
            etag = etag.removeprefix("W/")
        if len(etag) > 1 and etag[0] == etag[-1] == '"':
            etag = etag[1:-1]
            if etag == _ANY:
                etag = '"*"'  # a quoted asterisk is an ETag, not the wildcard
        etags.append(etag)
    return tuple(etags)


def _date_ms(value: str | None) -> int | None:
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) * _MS_PER_S
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _not_implemented(header: str) -> S3Error:
    return not_implemented(
        "A header you provided implies functionality that is not implemented", header=header
    )
