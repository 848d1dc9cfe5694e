"""The pages that a node serves besides the HTTP API: `/healthz`, `/readyz` and `/metrics`.

- `/healthz`: 200 while the process responds; it checks nothing;
- `/readyz`: 200 if the node can accept reads and writes, otherwise 503 with one problem per line;
- `/metrics`: the metrics, for clients on this machine and clients with an access key, or for all
  clients if `metrics_public` is set.

`/healthz` responds to requests from any origin; the other pages check the origin (`OriginCheck`). A
request that came through a proxy does not count as local, even if the proxy runs on this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from lakebed.api.problems import Unauthenticated
from lakebed.base.errors import Busy, LakebedError
from lakebed.http.request import Request, RequestLabel
from lakebed.http.responder import Handler
from lakebed.http.response import Response
from lakebed.http_api.guard import Guard
from lakebed.http_api.origin_check import OriginCheck
from lakebed.http_api.response_builder import problem_response
from lakebed.node.metrics import NodeFacts, accepted, counted_totals, rendered
from lakebed.node.object_totals import ObjectTotals
from lakebed.node.readiness import Readiness, check_readiness
from lakebed.store.store import Store

if TYPE_CHECKING:
    from lakebed.seglake.meta.rows import Totals

Page = Callable[[Request], Response | Awaitable[Response]]

_PLAIN: Final = ("Content-Type", "text/plain; charset=utf-8")
_FRESH: Final = ("Cache-Control", "no-store")
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
_SCRAPES_MAX: Final = 4  # running or waiting; each uses a thread for some milliseconds


class Pages:
    """Handles requests for the pages, and passes all others to the HTTP API. Must be used in the
    thread of the event loop.
    """

    def __init__(
        self,
        store: Store,
        *,
        guard: Guard,
        site: OriginCheck,
        readiness: Readiness,
        facts: Callable[[], NodeFacts],
        is_public: bool,
    ) -> None:
        """`facts` returns the current state of the node. `is_public` means that clients need no
        access key for the metrics.
        """
        self._store = store
        self._guard = guard
        self._site = site
        self._readiness = readiness
        self._facts = facts
        self._is_public = is_public
        self._totals = ObjectTotals(store)
        self._scraping = asyncio.Lock()
        self._scrapes = 0
        self._pages: dict[bytes, tuple[str, Page]] = {
            b"/healthz": ("healthz", self._health),
            b"/readyz": ("readyz", self._ready),
            b"/metrics": ("metrics", self._metrics),
        }

    def wrapped(self, calls: Handler) -> Handler:
        def handle(request: Request) -> Response | Awaitable[Response]:
            route = self._pages.get(request.raw_path)
            if route is None:
                return calls(request)
            name, page = route
            request.label = RequestLabel(name)
            if request.method not in ("GET", "HEAD"):
                response = _plain(405, "this page supports only GET and HEAD")
                response.headers = [*response.headers, ("Allow", "GET, HEAD")]
                return response
            try:
                if page != self._health:
                    self._site.check(request)
            except LakebedError as error:
                return _problem(error, request)
            return page(request)

        return handle

    def _health(self, _request: Request) -> Response:
        return _plain(200, "ok")

    async def _ready(self, _request: Request) -> Response:
        problems = await self._readiness.problems()
        return _plain(503, *problems) if problems else _plain(200, "ready")

    async def _metrics(self, request: Request) -> Response:
        try:
            await self._admit(request)
            content_type = accepted(request.headers.get("accept", ""))
            text = await self._rendered(content_type)
        except LakebedError as error:
            return _problem(error, request)
        return Response(200, [("Content-Type", content_type), _FRESH], text)

    async def _admit(self, request: Request) -> None:
        """Raises `Unauthenticated` if the request has an access key that is not valid, or needs one
        and has none. Never does so if the metrics are public.
        """
        is_asked = "authorization" in request.headers
        if not is_asked and (self._is_public or is_local(request)):
            return
        try:
            identity = await self._guard.identify(request)
        except Unauthenticated:
            if self._is_public:
                return
            raise
        request.label = RequestLabel("metrics", access_key=identity.access_key)

    async def _rendered(self, content_type: str) -> bytes:
        if self._scrapes >= _SCRAPES_MAX:
            raise Busy(
                f"{self._scrapes} other scrapes of the metrics are running, which is the maximum; "
                "retry later"
            )
        self._scrapes += 1
        try:
            async with self._scraping:
                totals = await self._totals.snapshot()
                facts = self._facts()
                return await asyncio.to_thread(self._render, facts, totals, content_type)
        finally:
            self._scrapes -= 1

    def _render(self, facts: NodeFacts, totals: Totals | None, content_type: str) -> bytes:
        counts = self._store.counts()
        if totals is not None:
            counts.append(counted_totals(totals))
        return rendered(facts, check_readiness(self._store), counts, content_type=content_type)


def is_local(request: Request) -> bool:
    """Returns whether the request comes from this machine and not through a proxy."""
    try:
        is_near = not request.peer or ipaddress.ip_address(request.peer).is_loopback
    except ValueError:
        return False
    return is_near and not any(name in request.headers for name in _FORWARDED)


def _problem(error: LakebedError, request: Request) -> Response:
    response = problem_response(error, request_id=request.id)
    response.headers = [*response.headers, ("Lakebed-Request-Id", request.id)]
    return response


def _plain(status: int, *lines: str) -> Response:
    return Response(status, [_PLAIN, _FRESH], "".join(f"{line}\n" for line in lines).encode())
