"""The awaited append: which back-pressure it waits out, and what cancelling leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lakebed.aio import append_record_async, flush_async
from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.errors import AWAITED, BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.base.errors import Closed, InputError
from lakebed.base.units import KIB

CONFIG = AofConfig(
    segment_bytes=64 * KIB,
    flush=FlushConfig(
        reserve_bytes=0, flush_bytes=8 * KIB, max_unflushed_bytes=16 * KIB, flush_ms=1
    ),
)


def test_what_the_log_resolves_itself_is_awaited() -> None:
    assert {
        BackpressureKind.ADMISSION, BackpressureKind.ROLLOVER, BackpressureKind.FLUSH,
    } == AWAITED  # fmt: skip


def test_appends_that_would_block_are_awaited_through_flushes_and_rollovers(
    tmp_path: Path,
) -> None:
    async def run(log: Aof) -> list[int]:
        async def caller(name: int) -> None:
            for number in range(40):
                await append_record_async(log, b"%d %d " % (name, number) * 150, ext_id=name)

        await asyncio.gather(*(caller(name) for name in range(8)))
        await flush_async(log)
        return [record.ext_id for record in log.read()]

    with AofManager(tmp_path, config=CONFIG) as manager:
        log = manager.open("orders")
        ids = asyncio.run(run(log))
        blocked = log.counters.snapshot().counters
    assert sorted(ids) == sorted(list(range(8)) * 40)
    assert blocked["would_block_flush"] + blocked["would_block_rollover"] > 0


class Blocking:
    """A log that blocks in a given way until it is told not to."""

    def __init__(self, kind: BackpressureKind) -> None:
        self.kind = kind
        self.is_blocked = True
        self.is_closed = False
        self.appended: list[bytes] = []
        self.listeners: list[object] = []

    def append_record(self, payload: bytes, *, ext_id: int, timestamp: int | None) -> int:
        if self.is_closed:
            raise Closed("closed")
        if self.is_blocked:
            raise WouldBlock(self.kind, "blocked")
        self.appended.append(payload)
        return 64

    def on_durable(self, callback: object) -> object:
        self.listeners.append(callback)
        return lambda: self.listeners.remove(callback)

    def notify(self) -> None:
        for listener in list(self.listeners):
            listener()  # type: ignore[operator]


def _append(log: Blocking) -> asyncio.Task[int]:
    return asyncio.create_task(append_record_async(log, b"x"))  # type: ignore[arg-type]


async def _until_listening(log: Blocking) -> None:
    while not log.listeners:
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", sorted(set(BackpressureKind) - AWAITED, key=str))
def test_other_kinds_are_raised_at_once(kind: BackpressureKind) -> None:
    async def run() -> None:
        with pytest.raises(WouldBlock) as caught:
            await _append(Blocking(kind))
        assert caught.value.kind is kind

    asyncio.run(run())


@pytest.mark.parametrize("kind", sorted(AWAITED, key=str))
def test_an_awaited_append_goes_on_when_told(kind: BackpressureKind) -> None:
    async def run() -> None:
        log = Blocking(kind)
        task = _append(log)
        await _until_listening(log)
        log.notify()  # nothing changed yet
        await asyncio.sleep(0)
        log.is_blocked = False
        log.notify()
        assert await task == 64
        assert log.appended == [b"x"]
        assert log.listeners == []

    asyncio.run(run())


def test_a_cancelled_append_appends_nothing_and_listens_no_more() -> None:
    async def run() -> None:
        log = Blocking(BackpressureKind.ROLLOVER)
        task = _append(log)
        await _until_listening(log)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        log.is_blocked = False
        log.notify()
        await asyncio.sleep(0)
        assert log.appended == []
        assert log.listeners == []

    asyncio.run(run())


def test_closing_hands_back_the_block_that_was_waited_out() -> None:
    async def run() -> None:
        log = Blocking(BackpressureKind.FLUSH)
        task = _append(log)
        await _until_listening(log)
        log.is_closed = True
        log.notify()
        with pytest.raises(WouldBlock) as caught:
            await task
        assert caught.value.kind is BackpressureKind.FLUSH

    asyncio.run(run())


def test_bad_input_is_raised_and_a_closed_log_says_so(tmp_path: Path) -> None:
    with AofManager(tmp_path, config=CONFIG) as manager:
        log = manager.open("orders")
        with pytest.raises(InputError):
            asyncio.run(append_record_async(log, b""))
    with pytest.raises(Closed):
        asyncio.run(append_record_async(log, b"late"))
