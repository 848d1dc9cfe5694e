"""What is told to a client that something is wrong: one code, one status, one sentence.

`STATUSES` are all codes that are ever told. `ERROR_TEXTS` is the one table from the errors of the
store to them: an error is told by the row of its class, or else of the nearest class above it.

Invariant: of what is wrong on this side (a file, the disk, the data) a client hears no more than
that it is so. Names of files stand in the messages of those errors, and are for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lakebed.base import errors as base
from lakebed.base.errors import LakebedError
from lakebed.http.request import BadBody, ClientGone, Request
from lakebed.http.response import Response
from lakebed.s3.xml_text import DECLARATION, element, encodable
from lakebed.seglake import errors as engine
from lakebed.seglake.conditions import NotModified

HOST_ID = "lakebed"  # told as HostId and as x-amz-id-2
XML = ("Content-Type", "application/xml")

Headers = Sequence[tuple[str, str]]


class S3Error(LakebedError):
    """An error by its code of S3. The status is that of the code (`STATUSES`)."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        headers: Headers = (),
        details: Sequence[tuple[str, str]] = (),
        closes: bool = False,
    ) -> None:
        """`headers` go with the response, `details` are further elements of the document.

        `closes`: the connection ends after it, because the rest of the request is not trusted.
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
    """How a class of errors is told: without a sentence of its own, by the error's."""

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
    base.BadName: _FAULT,  # the engine's own are above: what is left has the name of a file
    base.NotFound: _FAULT,
    base.AlreadyExists: _FAULT,
    base.BadConfig: _FAULT,
    base.RetryError: _BUSY,
    base.Locked: _AWAY,
    base.NoSpace: ErrorText("InsufficientStorage", "There is no space left to store this."),
    base.Closed: _AWAY,
    LakebedError: _FAULT,
}


def response_of(error: BaseException, request: Request, resource: str) -> Response:
    """The answer to a request that failed; `resource` is what it was about, decoded."""
    told = to_s3(error)
    status = STATUSES[told.code]
    if told.code == "NotModified":
        return Response(status, told.headers)
    is_told = request.method != "HEAD"
    body = error_document(told, request_id=request.id, resource=resource) if is_told else b""
    return Response(status, (*told.headers, XML), body, closes=told.closes)


def to_s3(error: BaseException) -> S3Error:
    """The error as it is told."""
    if isinstance(error, S3Error):
        return error
    told = _error_text(type(error))
    facts = _FACTS.get(told.code)
    headers, details = ((), ()) if facts is None else facts(error)
    return S3Error(
        told.code,
        str(error) if told.message is None else told.message,
        headers=headers,
        details=details,
        closes=isinstance(error, BadBody | ClientGone),
    )


def error_document(error: S3Error, *, request_id: str, resource: str) -> bytes:
    """Any parser can read it, whatever was asked for: it is how the client learns the code."""
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
    for one in kind.__mro__:
        if one in ERROR_TEXTS:
            return ERROR_TEXTS[one]
    return _FAULT


_Facts = tuple[Headers, Sequence[tuple[str, str]]]


def _of_marker(error: BaseException) -> _Facts:
    """The delete marker that is in the way, if it is one."""
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
    return (), [("ProposedSize", str(error.size)), ("MaxSizeAllowed", str(error.limit))]


_FACTS: Mapping[str, Callable[[BaseException], _Facts]] = {
    "NoSuchKey": _of_marker,
    "MethodNotAllowed": _of_marker,
    "InvalidRange": _of_range,
    "EntityTooLarge": _of_size,
}
