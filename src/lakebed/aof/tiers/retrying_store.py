"""An object store that retries requests after temporary failures; the store it wraps does not.

Only temporary errors (`RetryError`) are retried, such as no network, a failing server or
throttling. Errors for refused credentials, missing objects and cancelled operations are raised
immediately. Callers repeat a request themselves only if its bytes arrive truncated or damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TypeVar

from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.object_store import RETRY, ObjectInfo, ObjectStore, PutResult
from lakebed.aof.tiers.ranges import RangeSource
from lakebed.base.retry import RetryPolicy, is_retryable, retry

Result = TypeVar("Result")
OnRetry = Callable[[str, Exception], None]
"""Called with the operation (put, get, head, delete, list) and its error."""


class RetryingStore:
    """Wraps an `ObjectStore` and retries its temporary failures.

    Thread-safe if the wrapped store and `random` are.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        random: Random,
        sleep_ns: Callable[[int], None],
        policy: RetryPolicy = RETRY,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._store = store
        self._random = random
        self._sleep_ns = sleep_ns
        self._policy = policy
        self._on_retry = on_retry

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        return self._retry("put", lambda: self._store.put(key, source, metadata=metadata))

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        return self._retry("get", lambda: self._store.get_range(key, offset=offset, length=length))

    def head(self, key: str) -> ObjectInfo:
        return self._retry("head", lambda: self._store.head(key))

    def delete(self, key: str) -> None:
        self._retry("delete", lambda: self._store.delete(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Returns an iterator over the objects below `prefix`, after the whole listing succeeded.

        If the listing fails part of the way, it is repeated from the start.
        """
        return iter(self._retry("list", lambda: list(self._store.list(prefix))))

    def _retry(self, operation: str, call: Callable[[], Result]) -> Result:
        on_retry = self._on_retry
        return retry(
            call,
            policy=self._policy,
            random=self._random,
            sleep_ns=self._sleep_ns,
            may_repeat=_may_repeat,
            on_retry=None if on_retry is None else lambda error: on_retry(operation, error),
        )


def _may_repeat(error: Exception) -> bool:
    return is_retryable(error) and not isinstance(error, Cancelled)
