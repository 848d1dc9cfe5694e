"""A store of another process, for programs with an event loop: a thin shell over the same classes.

    async with AsyncStore(RemoteStore.open("https://host:9100")) as store:
        topic = await store.topic("orders")
        await topic.append_batch([b"..."])
        async for message in await topic.partition(0).follow(): ...

Every call runs in a thread, and gives what the call without a loop gives: values as they are,
topics and the like in a shell of their own, iterators as asynchronous ones. Nothing is decided
here. A call whose wait is cancelled goes on in its thread, and nobody hears what came of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, Final

from lakebed.base.errors import Closed
from lakebed.client.following import Polling
from lakebed.client.store import RemoteStore

THREADS_MAX: Final = 128  # so many calls may wait at a time
ITEMS_AT_ONCE: Final = 256

_SHELLED: Final = (
    "RemoteStore", "RemoteTopics", "RemoteTopic", "RemotePartition", "RemoteGroup", "RemoteLog",
    "RemoteTiers", "RemoteBucket", "RemoteObject", "RemoteKeys", "RemotePins",
)  # fmt: skip
_HERE: Final = frozenset({"partition"})  # methods that ask nobody
_ASKED: Final = frozenset({"info", "coordinator_watermark"})  # what looks like a value, and asks


class AsyncShell:
    """Around anything of a store: its methods are awaited, and so are its values that are asked
    for over the wire (`await bucket.info`)."""

    def __init__(self, inner: Any, executor: Executor) -> None:
        self._inner = inner
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED and isinstance(getattr(type(self._inner), name, None), property):
            return self._run(partial(getattr, self._inner, name))
        value = getattr(self._inner, name)
        if not callable(value) or name.startswith("_"):
            return self._shelled(value)
        if name in _HERE:
            return lambda *args, **options: self._shelled(value(*args, **options))
        return lambda *args, **options: self._run(partial(value, *args, **options))

    def __len__(self) -> int:
        return len(self._inner)

    def __aiter__(self) -> AsyncIterator[Any]:
        return AsyncItems(iter(self._inner), self._executor)

    def __repr__(self) -> str:
        return f"<async {self._inner!r}>"

    def _run(self, call: Callable[[], Any]) -> Coroutine[Any, Any, Any]:
        return _run(self._executor, call, self._shelled)

    def _shelled(self, value: Any) -> Any:
        if isinstance(value, Iterator):
            return AsyncItems(value, self._executor)
        if type(value).__name__ in _SHELLED and type(value).__module__.startswith(__package__):
            return AsyncShell(value, self._executor)
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(map(self._shelled, value))
        return value


class AsyncItems(AsyncIterator[Any]):
    """Of an iterator: some are fetched at a time, and those of a follower as they come.

    A wait that is cancelled loses nothing: what was being fetched is given out next.
    """

    def __init__(self, inner: Iterator[Any], executor: Executor) -> None:
        self._inner = inner
        self._executor = executor
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
        if isinstance(self._inner, Polling):
            self._inner.close()

    async def __aenter__(self) -> AsyncItems:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _fetched(self) -> list[Any] | None:
        if self._fetching is None:
            loop = asyncio.get_running_loop()
            self._fetching = loop.run_in_executor(self._executor, self._fetch)
        fetching = self._fetching
        await asyncio.wait([fetching])
        self._fetching = None
        return fetching.result()

    def _fetch(self) -> list[Any]:
        if not isinstance(self._inner, Polling):
            return list(islice(self._inner, ITEMS_AT_ONCE))
        try:
            return list(self._inner.next_batch() or ())
        except Closed:
            if self._inner.is_closed:
                return []
            raise


class AsyncStore(AsyncShell):
    """For one event loop."""

    def __init__(self, store: RemoteStore) -> None:
        super().__init__(store, ThreadPoolExecutor(THREADS_MAX, "lakebed-client"))

    async def close(self) -> None:
        """End what is under way, and close the store. Idempotent."""
        await asyncio.to_thread(self._inner.close)
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _run(executor: Executor, call: Callable[[], Any], shelled: Callable[[Any], Any]) -> Any:
    return shelled(await asyncio.get_running_loop().run_in_executor(executor, call))
