"""The endpoint: who asks is made sure of, what they ask for is found, carried out and answered.

Whatever goes wrong is told as S3 tells it. What is our own mistake is told as `InternalError`,
and logged with the id of the request.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes

from lakebed.base.events import event
from lakebed.http.refusal import Refusal
from lakebed.http.request import Asked, ClientGone, Request
from lakebed.http.response import Response
from lakebed.s3.auth.authenticator import Authenticator
from lakebed.s3.auth.identity import Identity
from lakebed.s3.auth.inflight import InflightLimit
from lakebed.s3.errors import HOST_ID, STATUSES, XML, S3Error, error_document, response_of
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
"""How refusals of the protocol are told; others as a bad request."""


class App:
    """A handler of `lakebed.http`. In the loop's thread."""

    def __init__(self, service: Service, keys: KeyRing) -> None:
        self._service = service
        self._domain = service.config.domain
        self._authenticator = Authenticator(keys, config=service.config, clock=service.clock)
        self._limit = InflightLimit(keys, config=service.config)

    def __call__(self, request: Request) -> Response | Awaitable[Response]:
        try:
            identity = self._authenticator.authenticate(request)
            verb, operation = route(request, domain=self._domain)
            bucket: str = getattr(operation, "bucket", "")
            request.asked = Asked(type(operation).__name__, bucket, identity.access_key)
            if not self._limit.try_enter(identity):
                return self._answer_later(verb, operation, request, identity)
            request.at_end(partial(self._limit.leave, identity))
            result = verb.handle(self._service, operation, request, identity)
        except Exception as error:  # noqa: BLE001 - told to the client, and logged if it is ours
            return self._failed(error, request)
        if isinstance(result, Response):
            return _signed(result, request)
        return self._answer(result, request)

    @property
    def replays_detected(self) -> int:
        return self._authenticator.replays_detected

    def refusal(self, refusal: Refusal) -> Response:
        """What the protocol refused, as S3 tells it."""
        code = _CODES.get(refusal.status, "BadRequest")
        document = error_document(
            S3Error(code, refusal.reason), request_id=refusal.request_id, resource="/"
        )
        headers = [XML, ("x-amz-request-id", refusal.request_id), ("x-amz-id-2", HOST_ID)]
        return Response(refusal.status, headers, document, closes=True)

    async def _answer(self, result: Awaitable[Response], request: Request) -> Response:
        try:
            return _signed(await result, request)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(error, request)

    async def _answer_later(
        self, verb: AnyVerb, operation: Operation, request: Request, identity: Identity
    ) -> Response:
        """When the key it is signed with has a place free."""
        try:
            await self._limit.enter(identity)
            request.at_end(partial(self._limit.leave, identity))
            result = verb.handle(self._service, operation, request, identity)
            response = result if isinstance(result, Response) else await result
            return _signed(response, request)
        except Exception as error:  # noqa: BLE001 - as above
            return self._failed(error, request)

    def _failed(self, error: Exception, request: Request) -> Response:
        if isinstance(error, ClientGone):
            raise error  # nobody is there to be told
        resource = unquote_to_bytes(request.raw_path).decode(errors="replace")
        response = response_of(error, request, resource)
        if response.status == STATUSES["InternalError"]:
            event(
                _log,
                "request_failed",
                level=logging.ERROR,
                request_id=request.id,
                method=request.method,
                error=f"{type(error).__name__}: {error}",
            )
            _log.debug("request %s", request.id, exc_info=error)
        return _signed(response, request)


def _signed(response: Response, request: Request) -> Response:
    """With what every answer has."""
    response.headers = [
        *response.headers,
        ("x-amz-request-id", request.id),
        ("x-amz-id-2", HOST_ID),
        ("Server", "Lakebed"),
    ]
    return response
