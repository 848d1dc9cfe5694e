"""The S3 errors that clients receive: a code, an HTTP status and a message.

`STATUSES` has the HTTP status of every code. `ERROR_TEXTS` maps the store's error classes to codes
and messages: an error gets the entry of its class, or of its nearest base class that has one.

Invariant: for a failure of the server (a file, the disk, the data) a client receives only a generic
message. The messages of such errors contain file names and go to the log only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from lakebed.base import errors as base
from lakebed.base.errors import LakebedError
from lakebed.http.request import BadBody, ClientGone, Request
from lakebed.http.response import Response
from lakebed.s3.xml_text import DECLARATION, element, encodable
from lakebed.seglake import errors as engine
from lakebed.seglake.conditions import NotModified

HOST_ID = "lakebed"  # sent as HostId and as x-amz-id-2
XML = ("Content-Type", "application/xml")

Headers = Sequence[tuple[str, str]]


class S3Error(LakebedError):
    """An error with an S3 code, which determines the HTTP status (`STATUSES`)."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        headers: Headers = (),
        details: Sequence[tuple[str, str]] = (),
        closes: bool = False,
    ) -> None:
        """`headers` are added to the response, and `details` as elements to its XML document.

        With `closes`, the connection is closed after the response. This is for errors after which
        the rest of the request cannot be parsed or is not received.
        """
        super().__init__(message)
        self.code = code
        self.headers = headers
        self.details = details
        self.closes = closes


STATUSES: Mapping[str, int] = {
    "NotModified": 304,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BadRequest": 400,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "ExpiredToken": 400,
    "IllegalLocationConstraintException": 400,
    "IllegalVersioningConfigurationException": 400,
    "IncompleteBody": 400,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRequest": 400,
    "InvalidStorageClass": 400,
    "InvalidToken": 400,
    "InvalidURI": 400,
    "KeyTooLongError": 400,
    "MalformedTrailerError": 400,
    "MalformedXML": 400,
    "MaxMessageLengthExceeded": 400,
    "MetadataTooLarge": 400,
    "MissingRequestBodyError": 400,
    "MissingSecurityHeader": 400,
    "RequestTimeout": 400,
    "UserKeyMustBeSpecified": 400,
    "XAmzContentChecksumMismatch": 400,
    "XAmzContentSHA256Mismatch": 400,
    "AccessDenied": 403,
    "AccessForbidden": 403,
    "InvalidAccessKeyId": 403,
    "InvalidChunkSizeError": 403,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
    "NoSuchBucket": 404,
    "NoSuchBucketPolicy": 404,
    "NoSuchCORSConfiguration": 404,
    "NoSuchKey": 404,
    "NoSuchLifecycleConfiguration": 404,
    "NoSuchPublicAccessBlockConfiguration": 404,
    "NoSuchTagSet": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NoSuchWebsiteConfiguration": 404,
    "ObjectLockConfigurationNotFoundError": 404,
    "OwnershipControlsNotFoundError": 404,
    "ReplicationConfigurationNotFoundError": 404,
    "ServerSideEncryptionConfigurationNotFoundError": 404,
    "MethodNotAllowed": 405,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "ConditionalRequestConflict": 409,
    "InvalidBucketState": 409,
    "OperationAborted": 409,
    "MissingContentLength": 411,
    "PreconditionFailed": 412,
    "InvalidRange": 416,
    "InternalError": 500,
    "NotImplemented": 501,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "InsufficientStorage": 507,
}


class ErrorText(NamedTuple):
    """The S3 code and message for an error class.

    If `message` is None, the client receives the message of the error itself.
    """

    code: str
    message: str | None = None


_FAULT = ErrorText("InternalError", "We encountered an internal error. Please try again.")
_BUSY = ErrorText("SlowDown", "Please reduce your request rate.")
_AWAY = ErrorText("ServiceUnavailable", "The store is not open. Please try again.")

ERROR_TEXTS: Mapping[type[LakebedError], ErrorText] = {
    engine.NoSuchBucket: ErrorText("NoSuchBucket", "The specified bucket does not exist"),
    engine.NoSuchKey: ErrorText("NoSuchKey", "The specified key does not exist."),
    engine.NoSuchVersion: ErrorText("NoSuchVersion", "The specified version does not exist."),
    engine.NoSuchUpload: ErrorText(
        "NoSuchUpload",
        "The specified upload does not exist. The upload ID may be invalid, or the upload may "
        "have been aborted or completed.",
    ),
    engine.MethodNotAllowed: ErrorText(
        "MethodNotAllowed", "The specified method is not allowed against this resource."
    ),
    engine.NoSuchAccessKey: ErrorText(
        "InvalidAccessKeyId",
        "The AWS Access Key Id you provided does not exist in our records.",
    ),
    engine.BucketExists: ErrorText("BucketAlreadyOwnedByYou"),
    engine.BucketNotEmpty: ErrorText(
        "BucketNotEmpty", "The bucket you tried to delete is not empty"
    ),
    engine.ReservedBucket: ErrorText("AccessDenied"),
    engine.BadBucketName: ErrorText("InvalidBucketName"),
    engine.BadKey: ErrorText("KeyTooLongError", "Your key is too long"),
    engine.BadState: ErrorText("IllegalVersioningConfigurationException"),
    engine.PreconditionFailed: ErrorText(
        "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
    ),
    engine.ConditionConflict: ErrorText(
        "ConditionalRequestConflict",
        "The conditional request cannot succeed due to a conflicting operation against this "
        "resource.",
    ),
    engine.BadDigest: ErrorText("BadDigest"),
    engine.BadSize: ErrorText(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header.",
    ),
    engine.BadPart: ErrorText("InvalidPart"),
    engine.BadPartOrder: ErrorText(
        "InvalidPartOrder",
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    ),
    engine.PartTooSmall: ErrorText(
        "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size"
    ),
    engine.BadRange: ErrorText("InvalidRange", "The requested range is not satisfiable"),
    engine.Damaged: _FAULT,
    NotModified: ErrorText("NotModified", "Not Modified"),
    BadBody: ErrorText("IncompleteBody"),
    ClientGone: ErrorText(
        "RequestTimeout", "The client went away before its request was complete."
    ),
    base.TooLarge: ErrorText(
        "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"
    ),
    base.InputError: ErrorText("InvalidRequest"),
    base.BadName: _FAULT,  # unlike the engine's classes above, this and the next name a file
    base.NotFound: _FAULT,
    base.AlreadyExists: _FAULT,
    base.BadConfig: _FAULT,
    base.RetryError: _BUSY,
    base.Locked: _AWAY,
    base.NoSpace: ErrorText("InsufficientStorage", "The server has too little free disk space."),
    base.Closed: _AWAY,
    LakebedError: _FAULT,
}


def response_of(error: BaseException, request: Request) -> Response:
    """Returns the response to a failed request: an error document, but no body for HEAD or 304."""
    s3_error = to_s3(error)
    status = STATUSES[s3_error.code]
    if s3_error.code == "NotModified":
        return Response(status, s3_error.headers)
    has_body = request.method != "HEAD"
    body = (
        error_document(s3_error, request_id=request.id, resource=resource_of(request))
        if has_body
        else b""
    )
    return Response(status, (*s3_error.headers, XML), body, closes=s3_error.closes)


def resource_of(request: Request) -> str:
    """Returns the percent-decoded path of the request, which its error document repeats."""
    return unquote_to_bytes(request.raw_path).decode(errors="replace")


def to_s3(error: BaseException) -> S3Error:
    """Converts an error to the S3 error that the client receives."""
    if isinstance(error, S3Error):
        return error
    text = _error_text(type(error))
    facts = _FACTS.get(text.code)
    headers, details = ((), ()) if facts is None else facts(error)
    return S3Error(
        text.code,
        str(error) if text.message is None else text.message,
        headers=headers,
        details=details,
        closes=isinstance(error, BadBody | ClientGone),
    )


def error_document(error: S3Error, *, request_id: str, resource: str) -> bytes:
    """Returns the error as an XML document, with characters that XML forbids replaced."""
    parts = [
        DECLARATION,
        "<Error>",
        element("Code", error.code),
        element("Message", encodable(str(error))),
        *(element(name, encodable(value)) for name, value in error.details),
        element("Resource", encodable(resource)),
        element("RequestId", request_id),
        element("HostId", HOST_ID),
        "</Error>",
    ]
    return "".join(parts).encode(errors="replace")


def invalid_argument(message: str, *, name: str, value: str) -> S3Error:
    return S3Error(
        "InvalidArgument", message, details=(("ArgumentName", name), ("ArgumentValue", value))
    )


def _error_text(kind: type[BaseException]) -> ErrorText:
    for class_ in kind.__mro__:
        if class_ in ERROR_TEXTS:
            return ERROR_TEXTS[class_]
    return _FAULT


_Facts = tuple[Headers, Sequence[tuple[str, str]]]


def _of_marker(error: BaseException) -> _Facts:
    """Returns the response headers for an error that a delete marker caused; otherwise none."""
    marker_id = getattr(error, "marker_id", None)
    if marker_id is None:
        return (), ()
    headers = [("x-amz-delete-marker", "true"), ("x-amz-version-id", marker_id)]
    if isinstance(error, engine.MethodNotAllowed):
        headers.append(("Allow", "DELETE"))
    return headers, ()


def _of_range(error: BaseException) -> _Facts:
    assert isinstance(error, engine.BadRange)
    return [("Content-Range", f"bytes */{error.size}")], [("ActualObjectSize", str(error.size))]


def _of_size(error: BaseException) -> _Facts:
    assert isinstance(error, base.TooLarge)
    proposed = [] if error.size is None else [("ProposedSize", str(error.size))]
    return (), [*proposed, ("MaxSizeAllowed", str(error.limit))]


_FACTS: Mapping[str, Callable[[BaseException], _Facts]] = {
    "NoSuchKey": _of_marker,
    "MethodNotAllowed": _of_marker,
    "InvalidRange": _of_range,
    "EntityTooLarge": _of_size,
}
