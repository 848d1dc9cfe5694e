"""The checksum headers of requests and responses.

A request sends a checksum in `x-amz-checksum-<algorithm>`, or announces it in `x-amz-trailer` and
sends it after the body. It may also send `Content-MD5`.
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
    """The checksums that a request sends or announces for its body."""

    expected: Expected
    algorithm: Algorithm | None = None  # of the checksum to compute and store
    trailer: Algorithm | None = None  # of the checksum that follows the body in a trailer


NOTHING: Final = Announced(Expected())


def announced(
    headers: Mapping[str, str], *, has_trailer: bool, needs_md5: bool = False
) -> Announced:
    """Returns the checksums that the headers send or announce for the body.

    `has_trailer` is whether the body is sent in a form that can have trailers. Raises `S3Error` if
    the headers are not valid or contradict each other, or if `needs_md5` is set and the request has
    no `Content-MD5`.
    """
    md5 = content_md5(headers, is_needed=needs_md5)
    sent = given_checksum(headers)
    trailer = _trailer_of(headers, has_trailer=has_trailer)
    if sent is not None and trailer is not None:
        raise _several()
    algorithm = trailer if sent is None else sent.algorithm
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
    checksums = () if sent is None else (sent,)
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
    """Returns the checksum of the body from the `x-amz-checksum-` headers, or None.

    Raises `S3Error` if there are several such headers, or if the algorithm or value is not valid.
    """
    sent = _given(headers)
    if sent is None:
        return None
    return checksum_of_body(*sent)


def whole_checksum(headers: Mapping[str, str]) -> Checksum | None:
    """Returns the checksum that a client expects the completed upload to have, or None.

    It may be a full-object or a composite checksum. Raises `S3Error` if the headers are not valid.
    """
    sent = _given(headers)
    kind = _type_of(headers)
    if sent is None:
        return None
    algorithm, value = sent
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
    """Returns the checksum algorithm that a copy or multipart upload requests, or None.

    Raises `S3Error` if the algorithm is not supported.
    """
    return _named(headers, _ALGORITHM)


def chosen_kind(headers: Mapping[str, str], algorithm: Algorithm | None) -> bool | None:
    """Returns whether a multipart upload requests a composite checksum, or None if unspecified.

    Raises `S3Error` if the requested type is unknown or not possible with `algorithm`, or if a type
    is requested and `algorithm` is None.
    """
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
    headers: HeaderList = []
    for checksum in checksums:
        headers.append((HEADERS[checksum.algorithm], checksum.value))
        if has_type and len(headers) == 1:
            headers.append((_TYPE, type_name(is_composite=checksum.is_composite)))
    return headers


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
    value = headers.get(_TRAILER)
    if value is None:
        return None
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    algorithms = [_BY_HEADER[name] for name in names if name in _BY_HEADER]
    if len(names) > 1:
        raise _several()
    if not algorithms:
        raise _invalid(f"The value specified in the {_TRAILER} header is not supported")
    if not has_trailer:
        raise _invalid(f"{_TRAILER} specified, but the body is not sent in chunks with trailers")
    return algorithms[0]


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
