"""A store of another process, for programs with an event loop: a thin shell over the same classes.

    async with AsyncStore(RemoteStore.open("https://host:9100")) as store:
        topic = await store.topic("orders")
        await topic.append_batch([b"..."])
        async for message in await topic.partition(0).follow(): ...

Every call runs in a thread, and gives what the call without a loop gives: values as they are,
topics and the like in a shell of their own, iterators as asynchronous ones. Nothing is decided
here. A call whose wait is cancelled goes on in its thread, and nobody hears what came of it; but
what it took is given back: leased messages, and pins.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final

from lakebed.base.errors import Closed, LakebedError
from lakebed.client.connections import Interruption
from lakebed.client.following import Polling
from lakebed.client.group import RemoteGroup
from lakebed.client.pins import RemotePins
from lakebed.client.store import RemoteStore

THREADS_MAX: Final = 128  # so many calls may wait at a time
ITEMS_AT_ONCE: Final = 256

_SHELLED: Final = (
    "RemoteStore", "RemoteTopics", "RemoteTopic", "RemotePartition", "RemoteGroup", "RemoteLog",
    "RemoteTiers", "RemoteBucket", "RemoteObject", "RemoteKeys", "RemotePins",
)  # fmt: skip
_HERE: Final = frozenset({"partition"})  # methods that ask nobody
_ASKED: Final = frozenset({"info", "coordinator_watermark"})  # what looks like a value, and asks

_GIVE_BACK: Final[Mapping[tuple[type, str], Callable[[Any, Any], None]]] = {
    (RemoteGroup, "lease"): lambda group, leased: group.give_back(leased),
    (RemotePins, "pin"): lambda pins, pin: pins.release(pin.pin_id),
    (RemotePins, "pin_offsets"): lambda pins, pin: pins.release(pin.pin_id),
}
"""What is done with the result of a call that nobody waits for any more."""


class Threads:
    """Where the calls of one store run."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(THREADS_MAX, "lakebed-client")
        self._giving_back: set[asyncio.Future[None]] = set()

    def begin(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self.executor, call)

    def give_back(self, running: asyncio.Future[Any], undo: Callable[[Any], None]) -> None:
        """Undo a call, when it has ended, that nobody waits for."""
        giving = asyncio.ensure_future(self._give_back(running, undo))
        self._giving_back.add(giving)
        giving.add_done_callback(self._giving_back.discard)

    async def _give_back(self, running: asyncio.Future[Any], undo: Callable[[Any], None]) -> None:
        with contextlib.suppress(LakebedError):  # it failed, or it is not held any more
            result = await running
            if result:
                await self.begin(partial(undo, result))

    async def close(self) -> None:
        """What must be given back is, first."""
        await asyncio.gather(*self._giving_back, return_exceptions=True)


class AsyncShell:
    """Around anything of a store: its methods are awaited, and so are its values that are asked
    for over the wire (`await bucket.info`)."""

    def __init__(self, inner: Any, threads: Threads) -> None:
        self._inner = inner
        self._threads = threads

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED and isinstance(getattr(type(self._inner), name, None), property):
            return self._run(partial(getattr, self._inner, name))
        value = getattr(self._inner, name)
        if not callable(value) or name.startswith("_"):
            return self._shelled(value)
        if name in _HERE:
            return lambda *args, **options: self._shelled(value(*args, **options))
        undo = _GIVE_BACK.get((type(self._inner), name))
        if undo is not None:
            return partial(self._take, name, value, partial(undo, self._inner))
        return lambda *args, **options: self._run(partial(value, *args, **options))

    def __len__(self) -> int:
        return len(self._inner)

    def __aiter__(self) -> AsyncIterator[Any]:
        return AsyncItems(iter(self._inner), self._threads)

    def __repr__(self) -> str:
        return f"<async {self._inner!r}>"

    def _run(self, call: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return _run(self._threads, call, self._shelled)

    async def _take(
        self,
        name: str,
        method: Callable[..., Any],
        undo: Callable[[Any], None],
        *args: Any,
        **options: Any,
    ) -> Any:
        """A call whose result is given back if this is cancelled."""
        interruption = Interruption()
        if name == "lease":  # which may wait for long
            method = partial(self._inner._lease, interruption)
        running = self._threads.begin(partial(method, *args, **options))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            interruption.leave()
            self._threads.give_back(running, undo)
            raise

    def _shelled(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            return AsyncItems(value, self._threads)
        if type(value).__name__ in _SHELLED and type(value).__module__.startswith(__package__):
            return AsyncShell(value, self._threads)
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(self._shelled, value))
        return value


class AsyncItems(AsyncIterator[Any]):
    """Of an iterator: some are fetched at a time, and those of a follower as they come.

    A wait that is cancelled loses nothing: what was being fetched is given out next. One that is
    dropped ends its follower.
    """

    def __init__(self, inner: Iterator[Any], threads: Threads) -> None:
        self._inner = inner
        self._threads = threads
        weakref.finalize(self, _end, inner).atexit = False
        self._ready: Iterator[Any] = iter(())
        self._fetching: asyncio.Future[list[Any] | None] | None = None
        self._turn = asyncio.Lock()  # one task at a time fetches

    async def __anext__(self) -> Any:
        for item in self._ready:
            return item
        async with self._turn:
            for item in self._ready:
                return item
            items = await self._fetched()
            if not items:
                raise StopAsyncIteration
            self._ready = iter(items)
            return next(self._ready)

    def close(self) -> None:
        """End a follower; who waits for it is woken. Idempotent."""
        _end(self._inner)

    async def __aenter__(self) -> AsyncItems:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _fetched(self) -> list[Any] | None:
        if self._fetching is None:
            self._fetching = self._threads.begin(partial(_fetch, self._inner))
        fetching = self._fetching
        await asyncio.wait([fetching])
        self._fetching = None
        return fetching.result()


def _fetch(items: Iterator[Any]) -> list[Any]:
    if not isinstance(items, Polling):
        return list(islice(items, ITEMS_AT_ONCE))
    try:
        return list(items.next_batch() or ())
    except Closed:
        if items.is_closed:
            return []
        raise


def _end(items: Iterator[Any]) -> None:
    if isinstance(items, Polling):
        items.close()


class AsyncStore(AsyncShell):
    """For one event loop."""

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(store, Threads())

    async def close(self) -> None:
        """End what is under way, and close the store. Idempotent."""
        await self._threads.close()
        await asyncio.to_thread(self._inner.close)
        self._threads.executor.shutdown(wait=False)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _run(threads: Threads, call: Callable[[], Any], shelled: Callable[[Any], Any]) -> Any:
    return shelled(await threads.begin(call))
