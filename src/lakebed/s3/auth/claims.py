"""Reads a request's signature and signer from its `Authorization` header or query.

Only the syntax is checked here; the authenticator verifies the signature.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_tz
from functools import lru_cache
from time import gmtime, strftime, strptime
from typing import NamedTuple

from lakebed.base.units import shown
from lakebed.s3.auth.sigv4 import ALGORITHM, SCOPE_END, Pair, SignedHeaders, decoded, signed_headers
from lakebed.s3.errors import S3Error

EXPIRES_S_MAX = 604_800

_ALGORITHM, _CREDENTIAL, _SIGNATURE = "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature"
_DATE, _SIGNED_HEADERS, _EXPIRES = "X-Amz-Date", "X-Amz-SignedHeaders", "X-Amz-Expires"
_TOKEN, _PAYLOAD = "X-Amz-Security-Token", "X-Amz-Content-Sha256"
_PAYLOAD_HEADER = _PAYLOAD.lower()
_REQUIRED = (_ALGORITHM, _CREDENTIAL, _SIGNATURE, _DATE, _SIGNED_HEADERS, _EXPIRES)
_OURS = frozenset({*_REQUIRED, _TOKEN, _PAYLOAD})
_VERSION_2 = frozenset({"AWSAccessKeyId", "Signature"})

_USUAL = re.compile(
    ALGORITHM + r" +Credential=([^/, ]+)/([^/, ]+)/([^/, ]+)/([^/, ]+)/aws4_request"
    r", *SignedHeaders=([^, ]+), *Signature=([^, ]+)"
)
_TIMESTAMP = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_TIMESTAMP_FORMAT = "%Y%m%dT%H%M%SZ"
_EXPECTED = f'expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/{SCOPE_END}"'


class Claim(NamedTuple):
    """The signature of a request with its signer and scope, not yet verified.

    `payload` is the value of the query parameter `X-Amz-Content-Sha256`, or "" if it is missing.
    """

    access_key: str
    date: str
    region: str
    service: str
    signed: SignedHeaders
    signature: str
    timestamp: str
    time_s: int
    expires_s: int | None  # None unless the URL is presigned
    payload: str

    @property
    def is_presigned(self) -> bool:
        return self.expires_s is not None


class Credential(NamedTuple):
    access_key: str
    date: str
    region: str
    service: str


# Signatures in the Authorization header.


def claim_in_header(authorization: str, headers: Mapping[str, str]) -> Claim:
    """Reads the signature and signer of a request with an `Authorization` header.

    Raises `S3Error` if the header is malformed or there is no valid date.
    """
    usual = _USUAL.fullmatch(authorization)
    if usual is not None:
        access_key, date, region, service, signed, signature = usual.groups()
        credential = Credential(access_key, date, region, service)
    else:
        credential, signed, signature = _unusual(authorization)
    timestamp, time_s = _header_time(headers)
    return Claim(*credential, signed_headers(signed), signature, timestamp, time_s, None, "")


def _unusual(authorization: str) -> tuple[Credential, str, str]:
    """Parses an `Authorization` header whose components have an unusual order or spacing.

    Returns the credential, the signed headers and the signature. Raises `S3Error` if the header is
    malformed.
    """
    scheme, _, components = authorization.strip(" ").partition(" ")
    if scheme != ALGORITHM:
        raise _refused_scheme(scheme, authorization)
    parts: dict[str, str] = {}
    for part in components.split(","):
        name, equals, value = part.strip(" ").partition("=")
        if not equals or name in parts or name not in ("Credential", "SignedHeaders", "Signature"):
            raise header_malformed(
                f"the authorization component {shown(part)} is malformed, unknown or repeated."
            )
        parts[name] = value
    for name in ("Credential", "SignedHeaders", "Signature"):
        if not parts.get(name):
            raise header_malformed(f"it requires the existence of {name}.")
    credential = _credential(parts["Credential"])
    if credential is None:
        raise header_malformed(f"the Credential is mal-formed; {_EXPECTED}.")
    return credential, parts["SignedHeaders"], parts["Signature"]


def _refused_scheme(scheme: str, authorization: str) -> S3Error:
    if scheme == "AWS" or scheme.startswith("AWS4-"):
        return unsupported_mechanism()
    return S3Error(
        "InvalidArgument",
        "Unsupported Authorization Type",
        details=[("ArgumentName", "Authorization"), ("ArgumentValue", shown(authorization))],
    )


def _header_time(headers: Mapping[str, str]) -> tuple[str, int]:
    timestamp = headers.get("x-amz-date")
    if timestamp is None:
        timestamp = _timestamp_of_date(headers.get("date", ""))
    time_s = seconds_of(timestamp)
    if time_s is None:
        message = "AWS authentication requires a valid Date or x-amz-date header"
        raise S3Error("AccessDenied", message)
    return timestamp, time_s


def _timestamp_of_date(text: str) -> str:
    """Converts a `Date` header to a `yyyyMMddTHHmmssZ` timestamp, or returns "" if it is invalid.

    Some clients already send `Date` in that format.
    """
    if _TIMESTAMP.fullmatch(text):
        return text
    try:
        date = parsedate_tz(text)
        if date is None:
            return ""
        return strftime(_TIMESTAMP_FORMAT, gmtime(calendar.timegm(date[:9]) - (date[9] or 0)))
    except (ValueError, OverflowError, TypeError, OSError, IndexError):
        return ""


# Signatures in the query (presigned URLs).


def auth_parameters(pairs: Sequence[Pair]) -> dict[str, str]:
    """Returns the query parameters that sign a presigned URL, decoded.

    The result is empty if the URL is not presigned. Raises `S3Error` if such a parameter occurs
    twice, or if the URL is signed only with signature version 2.
    """
    parameters: dict[str, str] = {}
    is_version_2 = False
    for name, value in pairs:
        if "%" in name or "+" in name:
            name = decoded(name)
        if name == _PAYLOAD_HEADER:
            name = _PAYLOAD  # some clients copy the header's name in lower case
        if name in _OURS:
            if name in parameters:
                raise query_malformed(f"{name} occurs more than once.")
            parameters[name] = decoded(value)
        elif name in _VERSION_2:
            is_version_2 = True
    if not any(name in parameters for name in (_ALGORITHM, _CREDENTIAL, _SIGNATURE)):
        if is_version_2:
            raise unsupported_mechanism()
        if _TOKEN not in parameters:
            return {}
    return parameters


def is_signature(name: str) -> bool:
    """Whether a query parameter is `X-Amz-Signature`, which the signature does not cover."""
    return name == _SIGNATURE or ("%" in name and decoded(name) == _SIGNATURE)


def claim_in_query(parameters: Mapping[str, str]) -> Claim:
    """Reads the signature and signer of a presigned URL from its `auth_parameters`.

    Raises `S3Error` if a parameter is missing or not valid, or if there is a security token.
    """
    if _TOKEN in parameters:
        raise invalid_token()
    if any(not parameters.get(name) for name in _REQUIRED):
        raise query_malformed(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, "
            "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and "
            "X-Amz-Expires parameters."
        )
    if parameters[_ALGORITHM] != ALGORITHM:
        raise query_malformed(f'X-Amz-Algorithm only supports "{ALGORITHM}"')
    credential = _credential(parameters[_CREDENTIAL])
    if credential is None:
        raise query_malformed(
            f"Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; "
            f"{_EXPECTED}."
        )
    timestamp = parameters[_DATE]
    time_s = seconds_of(timestamp)
    if time_s is None:
        raise query_malformed(
            "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""
        )
    return Claim(
        *credential,
        signed_headers(parameters[_SIGNED_HEADERS]),
        parameters[_SIGNATURE],
        timestamp,
        time_s,
        _expires_s(parameters[_EXPIRES]),
        parameters.get(_PAYLOAD, ""),
    )


def _expires_s(text: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20):
        raise query_malformed("X-Amz-Expires should be a number")
    seconds = int(text)
    if seconds < 1:
        raise query_malformed("X-Amz-Expires must be positive")
    if seconds > EXPIRES_S_MAX:
        raise query_malformed(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given "
            f"X-Amz-Expires must be less than {EXPIRES_S_MAX} seconds"
        )
    return seconds


# Shared by both.


def _credential(text: str) -> Credential | None:
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or parts[4] != SCOPE_END or not all(parts):
        return None
    return Credential(parts[0], parts[1], parts[2], parts[3])


@lru_cache(maxsize=256)
def seconds_of(timestamp: str) -> int | None:
    """Returns the Unix time of a `yyyyMMddTHHmmssZ` timestamp, or None if it is not valid."""
    if not _TIMESTAMP.fullmatch(timestamp):
        return None
    try:
        return calendar.timegm(strptime(timestamp, _TIMESTAMP_FORMAT))
    except ValueError:
        return None


def header_malformed(what: str, *, details: Sequence[tuple[str, str]] = ()) -> S3Error:
    return S3Error(
        "AuthorizationHeaderMalformed",
        f"The authorization header is malformed; {what}",
        details=details,
    )


def query_malformed(what: str, *, details: Sequence[tuple[str, str]] = ()) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", what, details=details)


def unsupported_mechanism() -> S3Error:
    return S3Error(
        "InvalidRequest",
        f"The authorization mechanism you have provided is not supported. Please use {ALGORITHM}.",
    )


def invalid_token() -> S3Error:
    return S3Error("InvalidToken", "The provided token is malformed or otherwise invalid.")
