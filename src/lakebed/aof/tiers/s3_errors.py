"""Translates the errors of the S3 client library to `Tier2Error`.

The library's error text contains the HTTP status and the server's response. The error is classified
by the S3 error code in the response or, if that is absent or not in `_MEANINGS`, by the status and
the library's type of error. If the text has no status either, the server did not respond: either
the credentials could not be loaded, which the text then shows, or the network has failed.

A 4xx status means that the server refused the request, and would refuse it again, so it counts as
`Unauthorised`: an operator must act. The exceptions are the statuses and codes of temporary
conditions, and status 400 without a code, of which the cause is not known.
"""

from __future__ import annotations

import re

from lakebed.aof.tiers.errors import Missing, Tier2Error, Transient, Unauthorised, Unavailable

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_METADATA_SERVICE = re.compile(r"http://[^/ ]+/latest/(api/token|meta-data)")
_CREDENTIALS = re.compile(r"credential", re.IGNORECASE)
_TEXT_MAX = 300

_MEANINGS: dict[str, type[Tier2Error]] = {
    "NoSuchBucket": Unavailable,
    "NoSuchKey": Missing,
    "AccessDenied": Unauthorised,
    "AccountProblem": Unauthorised,
    "AuthorizationHeaderMalformed": Unauthorised,
    "ExpiredToken": Unauthorised,
    "InvalidAccessKeyId": Unauthorised,
    "InvalidToken": Unauthorised,
    "RequestTimeTooSkewed": Unauthorised,
    "SignatureDoesNotMatch": Unauthorised,
    "TokenRefreshRequired": Unauthorised,
    # Temporary, although the status is 400.
    "BadDigest": Transient,
    "IncompleteBody": Transient,
    "InvalidPart": Transient,
    "RequestTimeout": Transient,
    "Throttling": Transient,
    "ThrottlingException": Transient,
    "XAmzContentSHA256Mismatch": Transient,
}
_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429})


def translated(error: Exception, *, operation: str, key: str) -> Tier2Error:
    """Returns the `Tier2Error` to raise instead of `error`, with a text of one line."""
    full = str(error)
    text = " ".join(full.partition("\n\nDebug source")[0].split())[:_TEXT_MAX]
    return _meaning(error, full)(f"{operation} {key}: {text or type(error).__name__}")


def status_of(error: Exception) -> int | None:
    """Returns the HTTP status in the error's text, or None if there was no response."""
    match = _STATUS.search(str(error))
    return int(match[1]) if match else None


def _meaning(error: Exception, text: str) -> type[Tier2Error]:
    code = _CODE.search(text)
    if code and code[1] in _MEANINGS:
        return _MEANINGS[code[1]]
    if _METADATA_SERVICE.search(text):  # the library's last resort when there are no credentials
        return Unauthorised
    status = status_of(error)
    if isinstance(error, FileNotFoundError) or status == 404:
        return Missing
    if type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
        return Unauthorised
    if status is None:
        return Unauthorised if _CREDENTIALS.search(text) else Unavailable
    if status >= 500:
        return Unavailable
    is_unknown = status < 400 or (status == 400 and code is None)
    return Transient if is_unknown or status in _TRANSIENT_STATUSES else Unauthorised
