"""An object store in memory that behaves as badly as it is told to, the same way for one seed.

    store = FakeObjectStore(runner, Random(7))
    store.plan("put", Trouble.LOST_ANSWER)       # the next put: done, but it raises
    store.chances[Trouble.UNAVAILABLE] = 0.2     # any call, one in five
    store.delay_ns_max = 50_000_000              # each call takes up to 50 ms of the runner's time
    store.list_lag_ns = 1_000_000_000            # listings show the state of a second ago

It stands for a machine of its own: it outlives restarts of the simulated one. After one, give it
the new runner (`store.runner = world.runner`).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from enum import Enum
from random import Random
from typing import NamedTuple

from lakebed.aof.tiers.errors import Missing, Transient, Unauthorised, Unavailable
from lakebed.aof.tiers.object_store import (
    ObjectInfo,
    PutResult,
    check_key,
    check_metadata,
    check_prefix,
)
from lakebed.aof.tiers.ranges import RangeSource, pieces
from lakebed.base.runner import Runner

PIECE_BYTES = 4096  # so that even a small put is interrupted a few times


class Trouble(Enum):
    """What a call may meet. The first four raise, the last two damage what is read."""

    UNAVAILABLE = "a 5xx: nothing was done"
    THROTTLED = "a 429: nothing was done"
    REFUSED = "a 403: nothing was done"
    LOST_ANSWER = "it was done, and the connection broke"
    CORRUPTED = "one bit of the bytes read is wrong"
    TRUNCATED = "some of the bytes read are missing at the end"


_OF_READS = (Trouble.CORRUPTED, Trouble.TRUNCATED)
_READS = frozenset({"get"})


class Stored(NamedTuple):
    data: bytes
    metadata: Mapping[str, str]
    etag: str


class _Change(NamedTuple):
    time_ns: int
    key: str
    stored: Stored | None


class FakeObjectStore:
    """An `ObjectStore`. Not for real threads: simulated ones take turns only while it waits."""

    def __init__(self, runner: Runner, random: Random) -> None:
        self.runner = runner
        self.objects: dict[str, Stored] = {}
        self.calls: Counter[tuple[str, str]] = Counter()  # (operation, key or prefix)
        self.is_down = False
        self.refuses = False
        self.delay_ns_max = 0
        self.list_lag_ns = 0
        self.chances: dict[Trouble, float] = {}
        self._random = random
        self._planned: dict[str, deque[Trouble | None]] = defaultdict(deque)
        self._changes: list[_Change] = []
        self._puts = 0

    def plan(self, operation: str, *troubles: Trouble | None) -> None:
        """Let the next calls of that kind (put, get, head, delete, list) meet these, in order."""
        self._planned[operation].extend(troubles)

    def flip_bit(self, key: str, *, offset: int, bit: int = 0) -> None:
        """Damage what is kept."""
        data = bytearray(self.objects[key].data)
        data[offset] ^= 1 << bit
        self.objects[key] = self.objects[key]._replace(data=bytes(data))

    def lose(self, key: str) -> None:
        """An object vanishes that nobody deleted."""
        del self.objects[key]
        self._note(key, None)

    # What the engine does with it.

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        check_key(key)
        check_metadata(metadata)
        trouble = self._begin("put", key)
        parts = []
        for piece in pieces(source, bytes_max=PIECE_BYTES):
            parts.append(piece)
            self._pass_time()
        self._puts += 1
        stored = Stored(b"".join(parts), dict(metadata), f'"{self._puts}"')
        self.objects[key] = stored
        self._note(key, stored)
        self._end("put", key, trouble)
        return PutResult(stored.etag)

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        check_key(key)
        trouble = self._begin("get", key)
        data = self._find("get", key).data[offset : offset + max(0, length)]
        self._end("get", key, trouble)
        if trouble in _OF_READS and data:
            place = self._random.randrange(len(data))
            if trouble is Trouble.TRUNCATED:
                return data[:place]
            bit = 1 << self._random.randrange(8)
            return data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        return data

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        trouble = self._begin("head", key)
        stored = self._find("head", key)
        self._end("head", key, trouble)
        return ObjectInfo(key, len(stored.data), stored.etag, stored.metadata)

    def delete(self, key: str) -> None:
        check_key(key)
        trouble = self._begin("delete", key)
        if self.objects.pop(key, None) is not None:
            self._note(key, None)
        self._end("delete", key, trouble)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        trouble = self._begin("list", prefix)
        shown = self._as_of(self.runner.clock.monotonic_ns() - self.list_lag_ns)
        self._end("list", prefix, trouble)
        for key in sorted(shown):
            if key.startswith(prefix):
                yield ObjectInfo(key, len(shown[key].data), shown[key].etag, None)

    def _begin(self, operation: str, key: str) -> Trouble | None:
        """The way there: what this call meets; raises if it never arrives."""
        self.calls[operation, key] += 1
        trouble = self._draw(operation)
        self._pass_time()
        what = f"{operation} {key}"
        if self.is_down or trouble is Trouble.UNAVAILABLE:
            raise Unavailable(f"{what}: 503 Service Unavailable")
        if self.refuses or trouble is Trouble.REFUSED:
            raise Unauthorised(f"{what}: 403 Forbidden")
        if trouble is Trouble.THROTTLED:
            raise Transient(f"{what}: 429 Too Many Requests")
        return trouble

    def _end(self, operation: str, key: str, trouble: Trouble | None) -> None:
        """The way back."""
        self._pass_time()
        if trouble is Trouble.LOST_ANSWER:
            raise Unavailable(f"{operation} {key}: the connection broke")

    def _draw(self, operation: str) -> Trouble | None:
        if self._planned[operation]:
            return self._planned[operation].popleft()
        for trouble in Trouble:
            fits = trouble not in _OF_READS or operation in _READS
            if fits and self._random.random() < self.chances.get(trouble, 0.0):
                return trouble
        return None

    def _pass_time(self) -> None:
        if self.delay_ns_max:
            self.runner.sleep_ns(self._random.randrange(1, self.delay_ns_max + 1))

    def _find(self, operation: str, key: str) -> Stored:
        if key not in self.objects:
            raise Missing(f"{operation} {key}: 404 Not Found")
        return self.objects[key]

    def _note(self, key: str, stored: Stored | None) -> None:
        self._changes.append(_Change(self.runner.clock.monotonic_ns(), key, stored))

    def _as_of(self, time_ns: int) -> dict[str, Stored]:
        if not self.list_lag_ns:
            return self.objects
        shown: dict[str, Stored] = {}
        for change in self._changes:
            if change.time_ns <= time_ns:
                shown.pop(change.key, None)
                if change.stored is not None:
                    shown[change.key] = change.stored
        return shown
