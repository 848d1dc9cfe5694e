"""Routes, authenticates, admits and runs one request of the HTTP API.

Errors become problem documents, including errors of the HTTP protocol itself; `edge.failures`
decides which are logged. Every request is counted by its operation and the first digit of its
status, or as `gone` if its client disconnected. `HANDLERS` is the table of the handlers of all
operations.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.operation_table import OPERATIONS
from lakebed.base.counters import Counter
from lakebed.edge.budget import Share
from lakebed.http.refusal import Refusal
from lakebed.http.request import ClientGone, Request, RequestLabel
from lakebed.http.response import Response
from lakebed.http_api import (
    admin,
    commit_handlers,
    groups,
    log_tail,
    logs,
    manifests,
    objects,
    records,
    segments,
    topics,
)
from lakebed.http_api.binder import bound
from lakebed.http_api.call import Call
from lakebed.http_api.guard import Guard, TrustingGuard
from lakebed.http_api.handler import Handler
from lakebed.http_api.origin_check import OriginCheck
from lakebed.http_api.response_builder import refusal_response, response_of
from lakebed.http_api.router import Router
from lakebed.http_api.service import Service

_log = logging.getLogger(__name__)

NO_CALL: Final = "no_call"  # counter name for requests that match no operation
GONE: Final = "gone"

# The handlers that `binder` makes, and those written by hand.
HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    **{operation: bound(operation) for operation in OPERATIONS if operation.target},
    **admin.HANDLERS,
    **commit_handlers.HANDLERS,
    **groups.HANDLERS,
    **logs.HANDLERS,
    **manifests.HANDLERS,
    **objects.HANDLERS,
    **records.HANDLERS,
    **segments.HANDLERS,
    **log_tail.HANDLERS,
    **topics.HANDLERS,
}


class App:
    """The request handler that `lakebed.http` calls. Used in the event loop's thread."""

    def __init__(
        self,
        service: Service,
        *,
        guard: Guard | None = None,
        site: OriginCheck | None = None,
        handlers: Mapping[Operation[Any], Handler] = HANDLERS,
    ) -> None:
        """Without `guard`, every request is trusted. Without `site`, requests of any web page are
        accepted."""
        self._service = service
        self._guard: Guard = guard or TrustingGuard()
        self._site = site
        self._handlers = handlers
        self._router = Router(operation for operation in OPERATIONS if operation in handlers)
        self._counted: dict[tuple[str, str], Counter] = {}
        self._budget = service.budget
        self._failures = service.failures

    async def __call__(self, request: Request) -> Response:
        share: Share | None = None
        try:
            operation, names = self._router.find(request.method, request.raw_path)
            request.label = RequestLabel(operation.name)
            if self._site is not None:
                self._site.check(request)
            if not operation.is_public:
                identity = await self._guard.identify(request)
                request.label = RequestLabel(operation.name, access_key=identity.access_key)
                self._service.check_threads()
                held_bytes = self._held_bytes(operation, request)
                share = self._budget.try_admit(identity, held_bytes=held_bytes)
                if share is None:
                    share = await self._budget.admit(identity, held_bytes=held_bytes)
                request.at_end(share.release)
            call = Call(operation, names, request, share, run=self._service.run)
            response = response_of(await self._handlers[operation](self._service, call), call)
        except ClientGone:
            self._count(request, GONE)
            raise
        except Exception as error:  # noqa: BLE001 - becomes a response, and is logged if unexpected
            response = self._failures.response(error, request, share)
        self._count(request, f"{response.status // 100}xx")
        return _with_common_headers(response, request.id)

    def refusal(self, refusal: Refusal) -> Response:
        """Returns the response to a request that the HTTP protocol layer has refused."""
        self._count(None, f"{refusal.status // 100}xx")
        self._failures.note_refusal(refusal)
        return _with_common_headers(refusal_response(refusal), refusal.request_id)

    def _held_bytes(self, operation: Operation[Any], request: Request) -> int:
        """Returns how many bytes of memory a request counts as using when it starts: the length of
        a small body that is already read, or the buffers of a body that is streamed; else 0."""
        whole = request.body.whole
        if whole is not None:
            return len(whole)
        is_passed_on = operation.body is Nothing and Raw.BYTES in operation.also_takes
        return self._service.limits.streamed_bytes if is_passed_on else 0

    def _count(self, request: Request | None, outcome: str) -> None:
        label = None if request is None else request.label
        name = NO_CALL if label is None else label.operation
        counter = self._counted.get((name, outcome))
        if counter is None:
            counter = self._service.counters.counter(f"{name}.{outcome}")
            self._counted[name, outcome] = counter
        counter.add()


def _with_common_headers(response: Response, request_id: str) -> Response:
    """Adds the headers that every response has."""
    response.headers = [
        *response.headers,
        ("Lakebed-Request-Id", request_id),
        ("Server", "Lakebed"),
    ]
    return response
