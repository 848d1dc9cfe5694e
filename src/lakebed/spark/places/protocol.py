"""What sources need of a store, a topic, a log and its manifest log, wherever they are.

Offsets of a topic are the engine's; positions in a log are its record ids, as plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from lakebed.aof.batch import RecordBatch
from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.base.clock import Clock
from lakebed.keratin.message_batch import MessageBatch
from lakebed.store.read_plan import PlannedRead, TopicRange, WantedRead
from lakebed.store.split_points import Bounds, Mark


class PinKeeper(Protocol):
    """As `lakebed.store.pins.Pins`."""

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]: ...

    def release_all(self, pin_ids: Iterable[str]) -> None: ...


class OpenTopic(Protocol):
    """A topic that is read."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str:
        """Another one, if it was deleted and made again; empty if it cannot be told."""

    @property
    def partition_count(self) -> int: ...

    def bounds(self) -> list[Bounds]:
        """The offsets of each partition, of when the topic was opened or later."""

    def marks(self, partition: int, start: int, end: int) -> list[Mark]:
        """From `start` to `end`, both included, rising; how the bytes are spread between them.

        What the indexes tell: close to the truth, and nothing but the balance depends on it.
        """

    def offsets_for_time(self, timestamp_ms: int) -> list[int]:
        """The first message of each partition that is not older; the end, if there is none."""

    def read_batches(self, partition: int, start: int, end: int) -> Iterator[MessageBatch]:
        """`OffsetOutOfRange`, at once, if the start is not there any more."""


class OpenLog(Protocol):
    """A log that is read."""

    @property
    def name(self) -> str: ...

    @property
    def log_id(self) -> str:
        """Another one, if it was deleted and made again; empty if it cannot be told."""

    def bounds(self) -> Bounds:
        """The positions of now: where the oldest record begins, and the durable end."""

    def bases(self) -> dict[int, int]:
        """Where each segment that is there begins in the log, by its id."""

    def marks(self, start: int, end: int) -> list[Mark]:
        """From `start` to `end`, both included, rising; records begin at those between them."""

    def position_for_time(self, timestamp_ns: int) -> int:
        """The first record that is not older; the end, if there is none."""

    def read_batches(self, start: int, end: int) -> Iterator[RecordBatch]:
        """`NotFound` if the start is not there any more."""


class OpenManifest(Protocol):
    """A manifest log that is read, by the engine's own reader."""

    @property
    def log(self) -> str: ...

    @property
    def stream(self) -> str: ...

    @property
    def reader(self) -> ManifestReader: ...

    def files(self) -> list[ManifestFile]:
        """Its chunks and snapshots of now."""


class OpenStore(Protocol):
    """A store that is read, and pinned. Not thread-safe."""

    @property
    def clock(self) -> Clock: ...

    @property
    def pins(self) -> PinKeeper: ...

    def topics(self) -> Sequence[str]: ...

    def topic(self, name: str) -> OpenTopic:
        """As it is now; `NotFound` if there is none."""

    def plan_topics(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """Resolve and pin them, and list their split points: see `lakebed.api.planner`."""

    def advance_topics(
        self, ranges: Sequence[TopicRange], *, rows_max: int | None, bytes_max: int | None
    ) -> list[int]:
        """Where to stop in each so that event time advances in all of them together."""

    def logs(self) -> Sequence[str]: ...

    def log(self, name: str) -> OpenLog:
        """`NotFound` if there is none."""

    def plan_logs(
        self, reads: Sequence[WantedRead], *, duration_ms: int, owner: str
    ) -> list[PlannedRead]:
        """As `plan_topics`."""

    def manifest(self, log: str) -> OpenManifest | None:
        """By the log's name or its stream id; None if it never had one. `NotFound` if there is no
        such log. See `recorded`."""

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> OpenStore: ...

    def __exit__(self, *_: object) -> None: ...


def recorded(store: OpenStore, log: str) -> OpenManifest | None:
    """The manifest log, if something is in it; `NotFound` if there is no such log."""
    found = store.manifest(log)
    if found is None:
        return None
    reader = found.reader
    return found if reader.chunk_indexes() or reader.snapshot_ids() else None
