"""A large body on its way in: stored whole, or given up once no thread is at it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakebed.base.units import MIB
from lakebed.edge.body_pump import PIECE_BYTES, BodyPlaces, BodyPump, Sent
from lakebed.edge.worker import Worker
from lakebed.http.request import ClientGone
from lakebed.seglake.change import Change
from lakebed.seglake.errors import NoSuchKey
from lakebed.seglake.lake import Lake
from tests.http.serving import in_loop
from tests.seglake.lakes import BUCKET, body, open_lake, stored

PIECES = 5


class Pieces:
    """A body that comes in pieces of a MiB, and may break off."""

    def __init__(self, data: bytes, *, breaks_off: bool = False) -> None:
        self.whole: bytes | None = None
        self.length: int | None = len(data)
        self._pieces = [data[at : at + MIB] for at in range(0, len(data), MIB)]
        self._breaks_off = breaks_off

    async def read(self) -> bytes:
        await asyncio.sleep(0)
        if self._pieces:
            return self._pieces.pop(0)
        if self._breaks_off:
            raise ClientGone("the client went away")
        return b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece


class SlowSink:
    """Its writes wait for the test."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def write(self, _data: Sent) -> None:
        self.has_begun.set()
        self.may_end.wait()
        self.events.append("written")

    def change(self) -> Change[None]:
        raise AssertionError("it never comes to that")

    def give_up(self) -> None:
        self.events.append("given up")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake(tmp_path) as lake:
        lake.buckets.create(BUCKET)
        yield lake


@pytest.fixture
def pump() -> Iterator[BodyPump]:
    with ThreadPoolExecutor(max_workers=2) as executor:
        yield BodyPump(Worker(executor), BodyPlaces(large_max=1))


@in_loop
async def test_a_body_is_stored_piece_by_piece(lake: Lake, pump: BodyPump) -> None:
    data = body(PIECES * PIECE_BYTES + 1)
    info = await pump.store(Pieces(data), lake.objects.begin_put(BUCKET, "key"))
    assert info.size == len(data)
    assert stored(lake, "key") == data


@in_loop
async def test_a_body_that_breaks_off_is_given_up_and_its_place_free(
    lake: Lake, pump: BodyPump
) -> None:
    data = bytes(PIECES * PIECE_BYTES)
    for _ in range(2):  # there is one place
        put = lake.objects.begin_put(BUCKET, "key")
        with pytest.raises(ClientGone):
            await pump.store(Pieces(data, breaks_off=True), put)
    with pytest.raises(NoSuchKey):
        stored(lake, "key")


@in_loop
async def test_a_body_is_not_given_up_while_a_thread_writes_it(pump: BodyPump) -> None:
    sink = SlowSink()
    storing = asyncio.ensure_future(pump.store(Pieces(bytes(PIECES * PIECE_BYTES)), sink))
    await asyncio.to_thread(sink.has_begun.wait)
    storing.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (storing.done(), sink.events) == (False, [])
    sink.may_end.set()
    with contextlib.suppress(asyncio.CancelledError):
        await storing
    assert sink.events == ["written", "given up"]
