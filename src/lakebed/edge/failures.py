"""What becomes of a request that failed: an answer its client can read, and a line of the log.

- An unexpected exception is hidden: its client learns the id of the request, the log has the rest.
- What the client cannot help is logged as `request_failed`, with that id. What lasts (a full disk,
  a store that is closing) meets every request meanwhile: of that there is one line a second.
- What is refused because it is too much, too slow or no request at all is logged as
  `request_refused`, one line a second. That a log or a queue is full is no refusal: it is how a
  writer learns to wait, and is not logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
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
"""How a wire answers an error."""

NO_OPERATION: Final = "none"  # it was refused before it was known what it asks for
_NOT_IMPLEMENTED: Final = 501
_HIDDEN: Final = LakebedError("the request could not be carried out: see the server's log")


class Failures:
    """Of one wire, in the loop's thread."""

    def __init__(self, render: Render, *, logger: logging.Logger, clock: Clock) -> None:
        self._render = render
        self._logger = logger
        self._clock = clock
        self._refused = RareEvent(
            logger, "request_refused", level=logging.WARNING, clock=clock, every_ns=NS_PER_S
        )
        self._failed_meanwhile = RareEvent(
            logger, "request_failed", level=logging.ERROR, clock=clock, every_ns=NS_PER_S
        )

    def response(self, error: Exception, request: Request, share: Share | None) -> Response:
        """Answer what a handler raised; a `ClientGone` is raised again.

        `share` is the request's part of the budget: None if it was not admitted.
        """
        if isinstance(error, ClientGone):
            raise error
        shown = error if isinstance(error, LakebedError) else _HIDDEN
        response = self._render(shown, request)
        if _is_too_much(error, share):
            self._refused.note(status=response.status, why=error, **_facts(request))
        elif response.status >= 500 and response.status != _NOT_IMPLEMENTED:
            self._note_failure(error, request, response.status)
        error.__traceback__ = None  # its frames hold the body, until cycles are collected
        return response

    def note_refusal(self, refusal: Refusal) -> None:
        """What the protocol refused, before there was a request or because of its body."""
        request = refusal.request
        facts = {} if request is None else _facts(request)
        self._refused.note(
            **{**facts, "request_id": refusal.request_id},
            status=refusal.status,
            why=refusal.reason,
        )

    def _note_failure(self, error: Exception, request: Request, status: int) -> None:
        if isinstance(error, Busy):
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
            self._failed_meanwhile.note(**facts)
            return
        event(self._logger, "request_failed", level=logging.ERROR, **facts)
        level = logging.DEBUG if isinstance(error, LakebedError) else logging.ERROR
        self._logger.log(level, "request %s", request.id, exc_info=error)


def _is_too_much(error: Exception, share: Share | None) -> bool:
    """Whether it went beyond a limit of the wire; `Busy` is also what a full queue raises."""
    if isinstance(error, TooLarge | TooManyBodies):
        return True
    return isinstance(error, Busy) and (share is None or share.is_short)


def _facts(request: Request) -> dict[str, object]:
    asked = request.label
    return {
        "request_id": request.id,
        "operation": NO_OPERATION if asked is None else asked.operation,
        "peer": request.peer,
        "access_key": "" if asked is None else asked.access_key,
    }
