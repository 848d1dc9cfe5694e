"""The door: who asks is made sure of, the call is looked up in the table, carried out, answered.

Whatever goes wrong is told as a problem document, also what the protocol itself refuses. What the
caller cannot help is logged with the id of the request, and so is what is refused because it is too
much, too slow or no request at all. That a log or a queue is full is no refusal: it is how whoever
writes learns to wait, and is only counted, as every call is, by operation and by the first digit of
its status.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.operations import OPERATIONS
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.counters import Counter
from lakebed.base.errors import LakebedError
from lakebed.base.events import RareEvent, event
from lakebed.edge.budget import Share
from lakebed.http.refusal import Refusal
from lakebed.http.request import Asked, ClientGone, Request
from lakebed.http.response import Response
from lakebed.http_api.answer import problem_response, refusal_response, response_of
from lakebed.http_api.call import Call
from lakebed.http_api.guard import LOCAL, Guard, Identity, TrustingGuard
from lakebed.http_api.handlers import HANDLERS, Handler
from lakebed.http_api.router import Router
from lakebed.http_api.service import Service
from lakebed.http_api.site import Site

_log = logging.getLogger(__name__)

NO_CALL: Final = "no_call"  # what is counted of requests that call nothing in the table
GONE: Final = "gone"


class App:
    """A handler of `lakebed.http`. In the loop's thread."""

    def __init__(
        self,
        service: Service,
        *,
        guard: Guard | None = None,
        site: Site | None = None,
        handlers: Mapping[Operation[Any], Handler] = HANDLERS,
    ) -> None:
        """Without a guard everybody is trusted; without a site, pages of other sites are too."""
        self._service = service
        self._guard: Guard = guard or TrustingGuard()
        self._site = site
        self._handlers = handlers
        self._router = Router(one for one in OPERATIONS if one in handlers)
        self._counted: dict[tuple[str, str], Counter] = {}
        self._refusals = RareEvent(
            _log, "request_refused", level=logging.WARNING, clock=service.clock, every_ns=NS_PER_S
        )

    async def __call__(self, request: Request) -> Response:
        asked = _Asked()
        try:
            response = await self._carry_out(request, asked)
        except ClientGone:
            self._count(asked.name, GONE)
            raise
        except Exception as error:  # noqa: BLE001 - told to the client, and logged if it is ours
            response = self._failed(error, request, asked)
            error.__traceback__ = None  # its frames hold the body, until cycles are collected
        self._count(asked.name, f"{response.status // 100}xx")
        return _signed(response, request.id)

    def refusal(self, refusal: Refusal) -> Response:
        """What the protocol refused, as everything else is told."""
        self._count(NO_CALL, f"{refusal.status // 100}xx")
        self._refusals.note(
            request_id=refusal.request_id,
            peer="" if refusal.request is None else refusal.request.peer,
            status=refusal.status,
            why=refusal.reason,
        )
        return _signed(refusal_response(refusal), refusal.request_id)

    async def _carry_out(self, request: Request, asked: _Asked) -> Response:
        operation, names = self._router.find(request.method, request.raw_path)
        asked.name = operation.name
        request.asked = Asked(operation.name)
        handler = self._handlers[operation]
        if self._site is not None:
            self._site.check(request)
        if operation.is_public:
            call = Call(operation, names, request)
            return response_of(await handler(self._service, call), call)
        asked.identity = await self._guard.identify(request)
        request.asked = Asked(operation.name, access_key=asked.identity.access_key)
        self._service.check_threads()
        budget, held_bytes = self._service.budget, self._held_bytes(operation, request)
        share = budget.try_admit(asked.identity, held_bytes=held_bytes)
        if share is None:
            share = await budget.admit(asked.identity, held_bytes=held_bytes)
        asked.share = share
        request.at_end(share.release)
        call = Call(operation, names, request, share, run=self._service.run)
        return response_of(await handler(self._service, call), call)

    def _held_bytes(self, operation: Operation[Any], request: Request) -> int:
        """What a request holds from its beginning: a small body, or a part of one passed on."""
        whole = request.body.whole
        if whole is not None:
            return len(whole)
        is_passed_on = operation.body is Nothing and Raw.BYTES in operation.also_takes
        return self._service.limits.streamed_bytes if is_passed_on else 0

    def _failed(self, error: Exception, request: Request, asked: _Asked) -> Response:
        told = error if isinstance(error, LakebedError) else _OURS
        response = problem_response(told, request_id=request.id)
        if _is_too_much(response.status, asked):
            self._refusals.note(
                request_id=request.id,
                peer=request.peer,
                status=response.status,
                why=told,
                operation=asked.name,
                access_key=asked.identity.access_key,
            )
        if response.status >= 500:
            duration_ns = self._service.clock.monotonic_ns() - request.received_ns
            event(
                _log,
                "request_failed",
                level=logging.ERROR,
                request_id=request.id,
                operation=asked.name,
                method=request.method,
                path=request.raw_path[:200].decode("latin-1"),
                peer=request.peer,
                access_key=asked.identity.access_key,
                status=response.status,
                duration_ms=duration_ns // NS_PER_MS,
                error=f"{type(error).__name__}: {error}",
            )
            level = logging.DEBUG if isinstance(error, LakebedError) else logging.ERROR
            _log.log(level, "request %s", request.id, exc_info=error)
        return response

    def _count(self, name: str, outcome: str) -> None:
        counter = self._counted.get((name, outcome))
        if counter is None:
            counter = self._service.counters.counter(f"{name}.{outcome}")
            self._counted[name, outcome] = counter
        counter.add()


class _Asked:
    """What is known of a request so far."""

    __slots__ = ("identity", "name", "share")

    def __init__(self) -> None:
        self.name = NO_CALL
        self.identity: Identity = LOCAL
        self.share: Share | None = None  # None until it is let in


def _is_too_much(status: int, asked: _Asked) -> bool:
    """Whether it went beyond a limit of the door; 429 is also what a queue that is full says."""
    is_let_in = asked.share is not None and not asked.share.is_short
    return status == 413 or (status == 429 and not is_let_in)


_OURS: Final = LakebedError("the request could not be carried out: see the server's log")


def _signed(response: Response, request_id: str) -> Response:
    """With what every answer has."""
    response.headers = [
        *response.headers,
        ("Lakebed-Request-Id", request_id),
        ("Server", "Lakebed"),
    ]
    return response
