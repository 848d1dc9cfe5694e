"""Authenticates and routes each S3 request, and runs it within the request limits.

Clients get errors as S3 errors; an unexpected exception becomes the S3 error `InternalError`.
`edge.failures` decides which errors and exceptions are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from typing import Final

from lakebed.edge.budget import Share
from lakebed.http.refusal import Refusal
from lakebed.http.request import Request, RequestLabel
from lakebed.http.response import Response
from lakebed.s3.auth.authenticator import Authenticator
from lakebed.s3.auth.identity import Identity
from lakebed.s3.errors import HOST_ID, XML, S3Error, error_document
from lakebed.s3.router import route
from lakebed.s3.service import Service
from lakebed.s3.verb import AnyVerb, Operation
from lakebed.seglake.key_ring import KeyRing

_log = logging.getLogger(__name__)

_CODES: Final[Mapping[int, str]] = {
    400: "BadRequest",
    408: "RequestTimeout",
    500: "InternalError",
    501: "NotImplemented",
    503: "ServiceUnavailable",
}
"""The S3 error codes for requests that the HTTP server refused, by status.

Other statuses have the code `BadRequest`.
"""


class App:
    """The handler that `lakebed.http` calls for each request, in the event loop's thread."""

    def __init__(self, service: Service, keys: KeyRing) -> None:
        self._service = service
        self._domain = service.config.domain
        self._authenticator = Authenticator(keys, config=service.config, clock=service.clock)
        self._budget = service.budget
        self._failures = service.failures

    def __call__(self, request: Request) -> Response | Awaitable[Response]:
        share: Share | None = None
        try:
            identity = self._authenticator.authenticate(request)
            verb, operation = route(request, domain=self._domain)
            bucket: str = getattr(operation, "bucket", "")
            request.label = RequestLabel(type(operation).__name__, bucket, identity.access_key)
            share = self._budget.try_admit(identity, held_bytes=_held_bytes(request))
            if share is None:
                return self._answer_later(verb, operation, request, identity)
            request.at_end(share.release)
            result = verb.handle(self._service, operation, request, identity)
        except Exception as error:  # noqa: BLE001 - reported to the client; bugs are also logged
            return self._failed(error, request, share)
        if isinstance(result, Response):
            return _with_common_headers(result, request.id)
        return self._answer(result, request, share)

    @property
    def replays_detected(self) -> int:
        return self._authenticator.replays_detected

    def refusal(self, refusal: Refusal) -> Response:
        """Logs a request that the HTTP server refused, and returns the S3 error as its response."""
        self._failures.note_refusal(refusal)
        code = _CODES.get(refusal.status, "BadRequest")
        document = error_document(
            S3Error(code, refusal.reason), request_id=refusal.request_id, resource="/"
        )
        response = Response(refusal.status, [XML], document, closes=True)
        return _with_common_headers(response, refusal.request_id)

    async def _answer(
        self, result: Awaitable[Response], request: Request, share: Share
    ) -> Response:
        try:
            return _with_common_headers(await result, request.id)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(error, request, share)

    async def _answer_later(
        self, verb: AnyVerb, operation: Operation, request: Request, identity: Identity
    ) -> Response:
        """Runs the request once the request limits allow it, or responds with an error."""
        share: Share | None = None
        try:
            share = await self._budget.admit(identity, held_bytes=_held_bytes(request))
            request.at_end(share.release)
            result = verb.handle(self._service, operation, request, identity)
            response = result if isinstance(result, Response) else await result
            return _with_common_headers(response, request.id)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(error, request, share)

    def _failed(self, error: Exception, request: Request, share: Share | None) -> Response:
        return _with_common_headers(self._failures.response(error, request, share), request.id)


def _held_bytes(request: Request) -> int:
    """Returns the size of a body that is already in memory, or 0 if it is still being received."""
    whole = request.body.whole
    return 0 if whole is None else len(whole)


def _with_common_headers(response: Response, request_id: str) -> Response:
    """Adds the headers that every response has: the request id and the name of the server."""
    response.headers = [
        *response.headers,
        ("x-amz-request-id", request_id),
        ("x-amz-id-2", HOST_ID),
        ("Server", "Lakebed"),
    ]
    return response
