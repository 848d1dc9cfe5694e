"""Turns a failed request into a response and a log line.

- The details of an unexpected exception are only logged; the client gets the request's id.
- Failures that are not the client's fault are logged as `request_failed`, with the request's id,
  also if only a part of the request failed. Failures that affect every request for a while (a full
  disk, a closing store) are logged at most once a second.
- Requests that exceed a limit, and requests that the HTTP protocol code refuses, such as slow or
  malformed ones, are logged as `request_refused`, at most once a second. A full log or queue is not
  logged: that is normal back-pressure for writers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from lakebed.base.clock import NS_PER_MS, NS_PER_S, Clock
from lakebed.base.errors import Busy, Closed, LakebedError, RetryError, TooLarge
from lakebed.base.events import RareEvent, event
from lakebed.edge.body_pump import TooManyBodies
from lakebed.edge.budget import Share
from lakebed.http.refusal import Refusal
from lakebed.http.request import ClientGone, Request
from lakebed.http.response import Response

Render = Callable[[LakebedError, Request], Response]
"""Renders an error in the server's own response format."""

NO_OPERATION: Final = "none"  # the request was refused before it was routed
_NOT_IMPLEMENTED: Final = 501
_HIDDEN: Final = LakebedError("the request failed inside the server; see the server's log")


class Failures:
    """Turns the failed requests of one server into responses and log lines.

    Use it only in the event loop's thread.
    """

    def __init__(self, render: Render, *, logger: logging.Logger, clock: Clock) -> None:
        self._render = render
        self._logger = logger
        self._clock = clock
        self._refused = RareEvent(
            logger, "request_refused", level=logging.WARNING, clock=clock, every_ns=NS_PER_S
        )
        self._failed_for_a_time = RareEvent(
            logger, "request_failed", level=logging.ERROR, clock=clock, every_ns=NS_PER_S
        )

    def response(self, error: Exception, request: Request, share: Share | None) -> Response:
        """Returns the response to a failed request, and logs the failure if it has to be logged.

        `error` is what authentication, admission or the handler raised. Re-raises `ClientGone`,
        because there is no client to respond to. `share` is the request's share of the budget, or
        None if the request was not admitted.
        """
        if isinstance(error, ClientGone):
            raise error
        shown = error if isinstance(error, LakebedError) else _HIDDEN
        response = self._render(shown, request)
        if _is_too_much(error, share):
            self._refused.note(status=response.status, why=error, **_facts(request))
        else:
            self._note_failure(error, request, response.status)
        error.__traceback__ = None  # its frames keep the body alive until garbage collection
        return response

    def note_in_body(self, errors: Iterable[Exception], request: Request) -> None:
        """Logs the failures that a response reports in its body, because its status cannot.

        Of several failures with the same status and class, only the first is logged.
        """
        noted: set[tuple[int, type[Exception]]] = set()
        for error in errors:
            shown = error if isinstance(error, LakebedError) else _HIDDEN
            status = self._render(shown, request).status
            if (status, type(error)) not in noted:
                noted.add((status, type(error)))
                self._note_failure(error, request, status)

    def note_refusal(self, refusal: Refusal) -> None:
        """Logs a request that the HTTP protocol code refused itself, such as a malformed one."""
        request = refusal.request
        facts = {} if request is None else _facts(request)
        self._refused.note(
            **{**facts, "request_id": refusal.request_id},
            status=refusal.status,
            why=refusal.reason,
        )

    def _note_failure(self, error: Exception, request: Request, status: int) -> None:
        if status < 500 or status == _NOT_IMPLEMENTED or isinstance(error, Busy):
            return
        duration_ns = self._clock.monotonic_ns() - request.received_ns
        facts = {
            **_facts(request),
            "method": request.method,
            "path": request.raw_path[:200].decode("latin-1"),
            "status": status,
            "duration_ms": duration_ns // NS_PER_MS,
            "error": f"{type(error).__name__}: {error}",
        }
        if isinstance(error, RetryError | Closed):
            self._failed_for_a_time.note(**facts)
            return
        event(self._logger, "request_failed", level=logging.ERROR, **facts)
        level = logging.DEBUG if isinstance(error, LakebedError) else logging.ERROR
        self._logger.log(level, "request %s failed", request.id, exc_info=error)


def _is_too_much(error: Exception, share: Share | None) -> bool:
    """Returns whether the request exceeded a limit of the server.

    A `Busy` from a full queue of the store does not count as such a limit.
    """
    if isinstance(error, TooLarge | TooManyBodies):
        return True
    return isinstance(error, Busy) and (share is None or share.is_short)


def _facts(request: Request) -> dict[str, object]:
    label = request.label
    return {
        "request_id": request.id,
        "operation": NO_OPERATION if label is None else label.operation,
        "peer": request.peer,
        "access_key": "" if label is None else label.access_key,
    }
