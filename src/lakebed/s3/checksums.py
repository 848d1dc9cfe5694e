"""Checksums as headers carry them: given with a body, chosen for an object, told of it.

A checksum stands in `x-amz-checksum-<algorithm>`, or is announced in `x-amz-trailer` and follows
the body. `Content-MD5` is another one, and may stand beside it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lakebed.base.errors import InputError
from lakebed.s3.errors import S3Error
from lakebed.s3.object_headers import HeaderList
from lakebed.seglake.digests import MD5_BYTES, Expected, can_be_full, decoded
from lakebed.seglake.model import Algorithm, Checksum

PREFIX: Final = "x-amz-checksum-"
HEADERS: Final = {algorithm: PREFIX + algorithm.value.lower() for algorithm in Algorithm}
FULL, COMPOSITE = "FULL_OBJECT", "COMPOSITE"

_BY_HEADER: Final = {header: algorithm for algorithm, header in HEADERS.items()}
_BY_NAME: Final = {algorithm.value: algorithm for algorithm in Algorithm}
_SDK: Final = "x-amz-sdk-checksum-algorithm"
_ALGORITHM: Final = "x-amz-checksum-algorithm"
_TYPE: Final = "x-amz-checksum-type"
_TRAILER: Final = "x-amz-trailer"
_NO_VALUE: Final = frozenset({_ALGORITHM, _TYPE, "x-amz-checksum-mode"})


class Announced(NamedTuple):
    """What a request says about the bytes of its body."""

    expected: Expected
    algorithm: Algorithm | None = None  # to be computed and kept
    trailer: Algorithm | None = None  # its value is told behind the body


NOTHING: Final = Announced(Expected())


def announced(
    headers: Mapping[str, str], *, has_trailer: bool, needs_md5: bool = False
) -> Announced:
    """`has_trailer`: the body is framed such that something can follow it."""
    md5 = content_md5(headers, is_needed=needs_md5)
    given = given_checksum(headers)
    trailer = _trailer_of(headers, has_trailer=has_trailer)
    if given is not None and trailer is not None:
        raise _several()
    algorithm = trailer if given is None else given.algorithm
    for name in (_SDK, _ALGORITHM):
        chosen = _named(headers, name)
        if chosen is None:
            continue
        if algorithm is None and name == _SDK:
            raise _invalid(
                f"{_SDK} specified, but no corresponding {PREFIX}* or {_TRAILER} headers "
                "were found."
            )
        if algorithm not in (None, chosen):
            raise _invalid(f"Value for {name} header is invalid.")
        algorithm = chosen
    checksums = () if given is None else (given,)
    return Announced(Expected(md5=md5, checksums=checksums), algorithm, trailer)


def content_md5(headers: Mapping[str, str], *, is_needed: bool = False) -> bytes | None:
    value = headers.get("content-md5")
    if value is None:
        if is_needed:
            raise _invalid("Missing required header for this request: Content-MD5")
        return None
    try:
        digest = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != MD5_BYTES:
        raise S3Error(
            "InvalidDigest",
            "The Content-MD5 you specified was invalid.",
            details=(("Content-MD5", value),),
        )
    return digest


def given_checksum(headers: Mapping[str, str]) -> Checksum | None:
    """The one that stands in a header of its own; of a body, so never composite."""
    found = _given(headers)
    if found is None:
        return None
    return checksum_of_body(*found)


def whole_checksum(headers: Mapping[str, str]) -> Checksum | None:
    """What the checksum of an object that is put together must be, of either type."""
    found = _given(headers)
    kind = _type_of(headers)
    if found is None:
        return None
    algorithm, value = found
    is_composite = "-" in value if kind is None else kind == COMPOSITE
    digest, dash, count = value.partition("-")
    checksum_of_body(algorithm, digest)
    if bool(dash) != is_composite or (dash and not (count.isascii() and count.isdigit())):
        raise _invalid(f"Value for {HEADERS[algorithm]} header is invalid.")
    return Checksum(algorithm, value, is_composite=is_composite)


def checksum_of_body(algorithm: Algorithm, value: str) -> Checksum:
    checksum = Checksum(algorithm, value)
    try:
        decoded(checksum)
    except InputError:
        raise _invalid(f"Value for {HEADERS[algorithm]} header is invalid.") from None
    return checksum


def chosen_algorithm(headers: Mapping[str, str]) -> Algorithm | None:
    """Which one an object that is copied or put together shall have."""
    return _named(headers, _ALGORITHM)


def chosen_kind(headers: Mapping[str, str], algorithm: Algorithm | None) -> bool | None:
    """Whether the checksum of an upload is composite; None: as is usual for its algorithm."""
    kind = _type_of(headers)
    if kind is None:
        return None
    if algorithm is None:
        raise _invalid(f"The {_TYPE} header can only be used with the {_ALGORITHM} header.")
    is_possible = can_be_full(algorithm) if kind == FULL else algorithm is not Algorithm.CRC64NVME
    if not is_possible:
        raise _invalid(
            f"The {kind} checksum type cannot be used with the {algorithm.value.lower()} "
            "checksum algorithm."
        )
    return kind == COMPOSITE


def checksum_headers(checksums: Iterable[Checksum], *, has_type: bool = True) -> HeaderList:
    found: HeaderList = []
    for checksum in checksums:
        found.append((HEADERS[checksum.algorithm], checksum.value))
        if has_type and len(found) == 1:
            found.append((_TYPE, type_name(is_composite=checksum.is_composite)))
    return found


def type_name(*, is_composite: bool) -> str:
    return COMPOSITE if is_composite else FULL


def _given(headers: Mapping[str, str]) -> tuple[Algorithm, str] | None:
    names = [name for name in headers if name.startswith(PREFIX) and name not in _NO_VALUE]
    if not names:
        return None
    if len(names) > 1:
        raise _several()
    algorithm = _BY_HEADER.get(names[0])
    if algorithm is None:
        raise _unsupported()
    return algorithm, headers[names[0]].strip()


def _trailer_of(headers: Mapping[str, str], *, has_trailer: bool) -> Algorithm | None:
    told = headers.get(_TRAILER)
    if told is None:
        return None
    names = [name.strip().lower() for name in told.split(",") if name.strip()]
    found = [_BY_HEADER[name] for name in names if name in _BY_HEADER]
    if len(names) > 1:
        raise _several()
    if not found:
        raise _invalid(f"The value specified in the {_TRAILER} header is not supported")
    if not has_trailer:
        raise _invalid(f"{_TRAILER} specified, but the body is not sent such that one can follow")
    return found[0]


def _named(headers: Mapping[str, str], name: str) -> Algorithm | None:
    value = headers.get(name)
    if value is None:
        return None
    algorithm = _BY_NAME.get(value.strip().upper())
    if algorithm is None:
        raise _unsupported()
    return algorithm


def _type_of(headers: Mapping[str, str]) -> str | None:
    kind = headers.get(_TYPE)
    if kind not in (None, FULL, COMPOSITE):
        raise _invalid(f"Value for {_TYPE} header is invalid.")
    return kind


def _invalid(message: str) -> S3Error:
    return S3Error("InvalidRequest", message)


def _several() -> S3Error:
    return _invalid(f"Expecting a single {PREFIX} header. Multiple checksum Types are not allowed.")


def _unsupported() -> S3Error:
    names = ", ".join(algorithm.value for algorithm in Algorithm)
    return _invalid(
        "Checksum algorithm provided is unsupported. Please try again with any of the valid "
        f"types: [{names}]"
    )
