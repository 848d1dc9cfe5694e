"""An `AsyncStore` with a blocking face, so that the suites of the other stores run with it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

from lakebed.aio import AsyncStore

_PACKAGE = "lakebed.aio."


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Any]) -> Any:
        """What comes of it, awaited if it can be; made in the loop's thread."""

        async def work() -> Any:
            made = make()
            return await made if inspect.isawaitable(made) else made

        return asyncio.run_coroutine_threadsafe(work(), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._loop.shutdown_asyncgens(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """Around anything of the client: what is awaited there is waited for here."""

    def __init__(self, inner: Any, loop: Loop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = self._loop.run(lambda: getattr(self._inner, name))
        if not inspect.ismethod(value) and not inspect.isfunction(value):
            return self._faced(value)
        return lambda *args, **options: self._faced(self._loop.run(lambda: value(*args, **options)))

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        items = self._inner.__aiter__()
        while True:
            try:
                yield self._loop.run(items.__anext__)
            except StopAsyncIteration:
                return

    def __next__(self) -> Any:
        try:
            return self._loop.run(self._inner.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        self._loop.run(self._inner.__aenter__)
        return self

    def __exit__(self, *details: object) -> None:
        self._loop.run(lambda: self._inner.__aexit__(*details))

    def _faced(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(map(self._faced, value))
        is_of_the_client = type(value).__module__.startswith(_PACKAGE)
        is_value = isinstance(value, tuple)
        if isinstance(value, AsyncIterator) or (is_of_the_client and not is_value):
            return Blocking(value, self._loop)
        return value


class BlockingStore(Blocking):
    def __init__(self, make: Callable[[], AsyncStore]) -> None:
        loop = Loop()
        super().__init__(loop.run(make), loop)

    def __exit__(self, *details: object) -> None:
        super().__exit__(*details)
        self._loop.close()
