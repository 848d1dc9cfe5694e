"""Calls on a remote log that wait longer than the server lets one call wait."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogDescription
from lakebed.api import logs, media
from lakebed.api.problems import Unreachable
from lakebed.api.topics import WAIT_MS_MAX
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import LakebedError, OutcomeUnknown
from lakebed.client.log import RemoteLog
from tests.client.callers import Scene, calling
from tests.client.scripted import Act, answer, document, hangs_up, problem, says

LAST = RecordId(96)
NOT_YET = OutcomeUnknown("not durable yet")
FULL = WouldBlock(BackpressureKind.FLUSH, "the queue is full")


class SlowServer:
    """Each act takes as long as the request allows it to wait, by the client's clock."""

    def __init__(self, kind: type[logs.Flush | logs.AppendRecords]) -> None:
        self._kind = kind
        self.scene: Scene

    def fails(self, error: LakebedError) -> Act:
        def act(sock: socket.socket) -> bool:
            self.scene.runner.manual.now_ns += self.waits_ms()[-1] * NS_PER_MS
            sock.sendall(problem(error))
            return True

        return act

    def bodies(self) -> list[Any]:
        return [
            media.decode(seen.body, self._kind, media.MSGPACK) for seen in self.scene.server.seen
        ]

    def waits_ms(self) -> list[int]:
        return [body.timeout_ms or 0 for body in self.bodies()]

    def log(self, scene: Scene) -> RemoteLog:
        self.scene = scene
        return RemoteLog(
            scene.caller,
            LogDescription(
                name="orders", stream_id=1, durable_end=64, coordinator_watermark=0, segments=1
            ),
        )


def test_a_flush_waits_until_its_own_timeout_for_the_same_record() -> None:
    server = SlowServer(logs.Flush)
    with calling(*[server.fails(NOT_YET)] * 20) as scene:
        with pytest.raises(OutcomeUnknown, match="not durable yet"):
            server.log(scene).flush(LAST, timeout=120.0)
        assert sum(server.waits_ms()) == 120_000
        assert max(server.waits_ms()) <= WAIT_MS_MAX
        assert {body.record_id for body in server.bodies()} == {int(LAST)}


def test_a_flush_ends_when_the_record_is_durable_after_some_waits() -> None:
    server = SlowServer(logs.Flush)
    done = says(answer(b"", media.MSGPACK, status=204))
    with calling(*[server.fails(NOT_YET)] * 4, done) as scene:
        server.log(scene).flush(LAST, timeout=120.0)
        assert len(scene.server.seen) == 5


def test_an_append_waits_until_its_own_timeout_and_is_not_appended() -> None:
    server = SlowServer(logs.AppendRecords)
    with calling(*[server.fails(FULL)] * 20) as scene:
        with pytest.raises(WouldBlock, match="the queue is full"):
            server.log(scene).append_record_with_timeout(b"a", 120.0)
        assert sum(server.waits_ms()) == 120_000
        assert max(server.waits_ms()) <= WAIT_MS_MAX


def test_an_append_that_was_refused_is_sent_again_until_it_is_appended_once() -> None:
    server = SlowServer(logs.AppendRecords)
    appended = says(document(logs.RecordIds([int(LAST)])))
    with calling(*[server.fails(FULL)] * 4, appended, appended) as scene:
        assert server.log(scene).append_record_with_timeout(b"a", 120.0) == LAST
        assert len(scene.server.seen) == 5


def test_an_append_whose_response_was_lost_is_not_sent_again() -> None:
    server = SlowServer(logs.AppendRecords)
    appended = says(document(logs.RecordIds([int(LAST)])))
    with calling(server.fails(FULL), hangs_up, appended) as scene:
        with pytest.raises(Unreachable):
            server.log(scene).append_record_with_timeout(b"a", 120.0)
        assert len(scene.server.seen) == 2
