"""A body whose next piece is read while one is sent: all of it let go, once no thread reads."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.base.errors import Closed, Corrupt
from lakebed.edge.read_ahead import read_ahead
from lakebed.edge.worker import Worker
from tests.http.serving import in_loop, until


class Source:
    """Pieces that are read one by one; the one at `waits_at` waits for the test."""

    def __init__(self, count: int, *, waits_at: int = -1, fails_at: int = -1) -> None:
        self.events: list[str] = []
        self.may_go_on = threading.Event()
        self.is_waiting = threading.Event()
        self._count, self._waits_at, self._fails_at = count, waits_at, fails_at

    def pieces(self) -> Iterator[bytes]:
        for number in range(self._count):
            if number == self._waits_at:
                self.is_waiting.set()
                self.may_go_on.wait()
            if number == self._fails_at:
                raise Corrupt("a piece", path="file", offset=0)
            self.events.append(f"read {number}")
            yield b"%d" % number

    def close(self) -> None:
        self.events.append("closed")


@pytest.fixture
def worker() -> Iterator[Worker]:
    with ThreadPoolExecutor(max_workers=1) as executor:
        yield Worker(executor)


@in_loop
async def test_the_next_piece_is_read_while_one_is_sent(worker: Worker) -> None:
    source = Source(3)
    body = await read_ahead(worker, source.pieces(), source.close)
    assert source.events == ["read 0"]
    assert await anext(body) == b"0"
    await until(lambda: "read 1" in source.events)
    assert [piece async for piece in body] == [b"1", b"2"]
    await body.aclose()
    assert source.events == ["read 0", "read 1", "read 2", "closed"]
    assert worker.call_count == 0


@in_loop
async def test_a_body_without_pieces_is_empty(worker: Worker) -> None:
    source = Source(0)
    body = await read_ahead(worker, source.pieces(), source.close)
    assert [piece async for piece in body] == []
    await body.aclose()
    assert source.events == ["closed"]


@in_loop
async def test_what_fails_before_the_first_piece_is_raised_and_closed(worker: Worker) -> None:
    source = Source(2, fails_at=0)
    with pytest.raises(Corrupt):
        await read_ahead(worker, source.pieces(), source.close)
    assert source.events == ["closed"]
    worker.executor.shutdown()
    with pytest.raises(Closed):
        await read_ahead(worker, source.pieces(), source.close)
    assert source.events == ["closed", "closed"]


@in_loop
async def test_what_fails_later_is_raised_in_its_place(worker: Worker) -> None:
    source = Source(2, fails_at=1)
    body = await read_ahead(worker, source.pieces(), source.close)
    assert await anext(body) == b"0"
    with pytest.raises(Corrupt):
        await anext(body)
    await body.aclose()
    assert source.events == ["read 0", "closed"]


@pytest.mark.parametrize("waits_at", [0, 1])
@in_loop
async def test_a_source_is_not_closed_while_a_thread_reads_it(
    worker: Worker, waits_at: int
) -> None:
    source = Source(2, waits_at=waits_at)

    async def send() -> None:
        body = await read_ahead(worker, source.pieces(), source.close)
        try:
            async for _ in body:
                pass
        finally:
            await body.aclose()

    sending = asyncio.ensure_future(send())
    await asyncio.to_thread(source.is_waiting.wait)
    sending.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not sending.done()
    assert "closed" not in source.events
    source.may_go_on.set()
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    assert source.events[-1] == "closed"
    assert source.events.count("closed") == 1
