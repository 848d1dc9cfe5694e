"""What is answered and logged of requests that failed, whatever wire they came over."""

from __future__ import annotations

import logging
from typing import NamedTuple

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import (
    Busy,
    Closed,
    Corrupt,
    LakebedError,
    NoSpace,
    NotFound,
    SyncFailed,
    TooLarge,
)
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.edge.body_pump import TooManyBodies
from lakebed.edge.budget import Budget, Share
from lakebed.edge.failures import Failures
from lakebed.http.refusal import Refusal
from lakebed.http.request import ClientGone, Request, RequestLabel
from lakebed.http.response import Response
from tests.s3.calls import REQUEST_ID
from tests.s3.calls import request as made_request

NOT_IMPLEMENTED = LakebedError("not here")
STATUSES: dict[type[LakebedError], int] = {
    NotFound: 404,
    TooLarge: 400,
    Busy: 503,
    TooManyBodies: 503,
    NoSpace: 507,
    Closed: 503,
}


def render(error: LakebedError, _request: Request) -> Response:
    status = 501 if error is NOT_IMPLEMENTED else STATUSES.get(type(error), 500)
    return Response(status, body=str(error).encode())


class Key(NamedTuple):
    access_key: str = "key"
    inflight_max: int | None = None
    is_exempt: bool = False


class Wire:
    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        logger = logging.getLogger("tests.edge")
        caplog.set_level(logging.WARNING, logger.name)
        self._caplog = caplog
        self.clock = SimulatedClock()
        self.failures = Failures(render, logger=logger, clock=self.clock)
        budget = Budget(requests_max=1, key_requests_max=1, body_bytes_max=10)
        share = budget.try_admit(Key())
        assert share is not None
        self.share = share
        self.request = made_request("PUT", "/bucket/key")
        self.request.label = RequestLabel("PutObject", "bucket", "key")

    def response(self, error: Exception, share: Share | None = None) -> Response:
        """Of an error that was raised, by a request that was admitted."""
        try:
            raise error
        except Exception as raised:  # noqa: BLE001 - whatever a test gives
            return self.failures.response(raised, self.request, share or self.share)

    @property
    def lines(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
def wire(caplog: pytest.LogCaptureFixture) -> Wire:
    return Wire(caplog)


def test_an_unexpected_exception_is_hidden_and_logged_whole(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    response = wire.response(ZeroDivisionError("inner details"))
    assert response.status == 500
    assert b"inner" not in bytes(response.body)  # type: ignore[arg-type]
    line, traceback = wire.lines
    for fact in (
        "request_failed",
        f"request_id={REQUEST_ID}",
        "operation=PutObject",
        "access_key=key",
        "path=/bucket/key",
        "ZeroDivisionError: inner details",
    ):
        assert fact in line
    assert REQUEST_ID in traceback
    assert caplog.records[1].exc_info


@pytest.mark.parametrize(
    "error", [Corrupt("bad", path="/a/file", offset=3), SyncFailed("sync", "/a/file", why="EIO")]
)
def test_each_failure_that_no_client_can_help_is_logged(wire: Wire, error: LakebedError) -> None:
    for _ in range(3):
        assert wire.response(error).status == 500
    assert [line.partition(" ")[0] for line in wire.lines] == ["request_failed"] * 3


def test_failures_that_a_body_reports_are_logged_once_for_each_class(wire: Wire) -> None:
    errors = [
        NotFound("a"),
        *(Corrupt("bad", path=f"/{n}") for n in range(3)),
        SyncFailed("s", "p"),
    ]
    wire.failures.note_in_body(errors, wire.request)
    assert [line.partition("error=")[2].partition(":")[0] for line in wire.lines] == [
        "Corrupt",
        "SyncFailed",
    ]


@pytest.mark.parametrize("error", [NoSpace("the disk is full"), Closed("closing")])
def test_what_fails_every_request_while_it_lasts_is_logged_once_a_second(
    wire: Wire, error: LakebedError
) -> None:
    for _ in range(3):
        wire.response(error)
    assert len(wire.lines) == 1
    wire.clock.advance(NS_PER_S)
    wire.response(error)
    assert wire.lines[1].startswith("request_failed")
    assert wire.lines[1].endswith("left_out=2")


@pytest.mark.parametrize("error", [Busy("the queue is full"), NotFound("x"), NOT_IMPLEMENTED])
def test_what_the_client_learns_from_the_answer_is_not_logged(
    wire: Wire, error: LakebedError
) -> None:
    wire.response(error)
    assert wire.lines == []


def test_what_goes_beyond_a_limit_of_the_wire_is_logged_once_a_second(wire: Wire) -> None:
    refused = Busy("too many requests are under way")
    for _ in range(3):
        assert wire.failures.response(refused, wire.request, None).status == 503
    [line] = wire.lines
    assert line.startswith("request_refused")
    assert "operation=PutObject" in line
    wire.clock.advance(NS_PER_S)
    with pytest.raises(Busy) as short:
        wire.share.take(11)
    wire.response(short.value)
    for error in (TooLarge("the body", size=2, limit=1), TooManyBodies("16 are being received")):
        wire.clock.advance(NS_PER_S)
        wire.response(error)
    assert [line.partition(" ")[0] for line in wire.lines] == ["request_refused"] * 4


def test_what_the_protocol_refuses_is_logged(wire: Wire) -> None:
    wire.failures.note_refusal(Refusal(400, "no host", REQUEST_ID, None))
    wire.clock.advance(NS_PER_S)
    wire.failures.note_refusal(Refusal(400, "a broken body", REQUEST_ID, wire.request))
    first, second = wire.lines
    assert f"request_id={REQUEST_ID} status=400 why=no host" in first
    assert "operation=PutObject" in second


def test_a_client_that_is_gone_gets_no_answer(wire: Wire) -> None:
    with pytest.raises(ClientGone):
        wire.response(ClientGone("gone"))
    assert wire.lines == []


def test_no_frame_that_may_hold_a_body_is_kept(wire: Wire) -> None:
    error = NotFound("x")
    wire.response(error)
    assert error.__traceback__ is None
