"""Topics: durable produce, and consume, beside an embedded store and two servers.

All of them make a batch of 1,000 records durable before the call returns, on the same disk:

- lakebed: `append_batch(…).result()`, in process;
- LMDB: one transaction with `putmulti`, synced at its commit, in process;
- Redis Streams: one `MULTI` with 1,000 `XADD`, `appendfsync always`, over loopback;
- NATS JetStream: 1,000 publishes in flight, `sync_interval: always`, over loopback. It syncs each
  message, and an atomic batch a few times.

They consume in fetches of 1,000 from the first record on, from the page cache: `XREAD`, a pull
consumer without acks, a cursor. LMDB hands out views of its map.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from bench.aof_stores import SCRATCH, LmdbStore, scratch_folder
from bench.nats_peer import NatsStream
from bench.redis_peer import RedisStream
from bench.row import Contestant, Row, Run
from bench.topics_ours import LakebedTopic
from lakebed.base.units import KIB, MIB
from lakebed.keratin.format import record_bytes

SIZES = {"100 B": 100, "1 KiB": KIB}
FETCH_RECORDS = 1_000


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    batch_records: int = 1_000
    # Of encoded records; who is slower than the time allows does less.
    burst_bytes: int = 48 * MIB
    burst_s_max: float = 2.0
    burst_rest_s: float = 1.0
    sustained_bytes: int = 128 * MIB
    sustained_s_max: float = 1.0
    sustained_rest_s: float = 0.5
    read_bytes: int = 16 * MIB  # of payloads
    lease_batches: int = 50
    lease_rest_s: float = 0.2
    restart_acks: int = 1_000_000


FULL = Work()


class Topic(Protocol):
    """Where records are appended, and consumed."""

    def append(self, payloads: Sequence[bytes]) -> None:
        """Durable when it returns."""

    def fetches(self) -> Iterator[Sized]:
        """All records from the first on, some at a time."""

    def close(self) -> None: ...


OpenTopic = Callable[[Path], Topic]


class LmdbTopic:
    """What `bench.aof_stores` has, in fetches."""

    def __init__(self, folder: Path) -> None:
        self._store = LmdbStore(folder)
        self.append = self._store.append
        self.close = self._store.close

    def fetches(self) -> Iterator[Sequence[memoryview]]:
        payloads = self._store.payloads()
        while fetch := list(islice(payloads, FETCH_RECORDS)):
            yield fetch


PEERS: dict[str, OpenTopic] = {
    "LMDB": LmdbTopic,
    "Redis Streams": RedisStream,
    "NATS JetStream": NatsStream,
    "NATS JetStream, atomic batches": partial(NatsStream, atomic=True),
}
# The same ones, without a sync: how a topic was filled is not what a reader is asked.
FILLED: dict[str, OpenTopic] = {
    "LMDB": LmdbTopic,
    "Redis Streams": partial(RedisStream, durable=False),
    "NATS JetStream": partial(NatsStream, durable=False),
}


def rows(work: Work = FULL) -> Iterator[Row]:
    for size_name, size in SIZES.items():
        payloads = random_payloads(size, work)
        yield sustained_row(f"topics/durable batch of 1,000, sustained/{size_name}", payloads, work)
        yield burst_row(f"topics/durable batch of 1,000, in bursts/{size_name}", payloads, work)
    for size_name, size in SIZES.items():
        yield consume_row(f"topics/consume/{size_name}", random_payloads(size, work), work)


# Producing.


def sustained_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    """The rest is there for the disk, which has the end of somebody else's turn to do."""
    batch_count = work.sustained_bytes // encoded_bytes(payloads)
    turn = Turn(batch_count, work.sustained_s_max, work.sustained_rest_s)
    ours = partial(LakebedTopic, zero_fill=False)
    note = " The topic does not zero-fill its segments: under such a load it would not."
    return _append_row(name, payloads, work.scratch, turn, ours, note)


def burst_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    """What a topic that is not at its limit all the time does in a busy moment."""
    batch_count = work.burst_bytes // encoded_bytes(payloads)
    turn = Turn(batch_count, work.burst_s_max, work.burst_rest_s)
    note = " In this rest the topic zero-fills what comes next, in the background."
    return _append_row(name, payloads, work.scratch, turn, LakebedTopic, note)


@dataclass(frozen=True)
class Turn:
    """Ends after so many batches, or so long."""

    batch_count: int
    s_max: float
    rest_s: float


def _append_row(
    name: str,
    payloads: Sequence[bytes],
    scratch: Path,
    turn: Turn,
    ours: OpenTopic,
    note: str,
) -> Row:
    topics: dict[str, OpenTopic] = {"lakebed": ours, **PEERS}
    return Row(
        name=name,
        unit="records",
        baseline="LMDB",
        burst_rest_s=turn.rest_s,
        note=(
            f"turns of {turn.batch_count:,} batches, or of {turn.s_max} s if that is less; "
            f"before each all rest {turn.rest_s} s, untimed.{note}"
        ),
        contestants=[
            Contestant(label, partial(_append, open_topic, payloads, scratch, turn))
            for label, open_topic in topics.items()
        ],
    )


@contextmanager
def _append(
    open_topic: OpenTopic, payloads: Sequence[bytes], scratch: Path, turn: Turn
) -> Iterator[Run]:
    with scratch_folder(scratch) as folder, closing(open_topic(folder)) as topic:

        def run() -> float:
            deadline = time.monotonic() + turn.s_max
            done = 0
            while done < turn.batch_count and (done == 0 or time.monotonic() < deadline):
                topic.append(payloads)
                done += 1
            return done * len(payloads)

        yield run


# Consuming.


def consume_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    batch_count = max(1, work.read_bytes // sum(map(len, payloads)))
    return Row(
        name=name,
        unit="records",
        baseline="LMDB",
        contestants=[
            Contestant("lakebed", partial(_consume, LakebedTopic, payloads, batch_count, work)),
            Contestant("lakebed, one by one", partial(_iterate, payloads, batch_count, work)),
            *(
                Contestant(label, partial(_consume, open_topic, payloads, batch_count, work))
                for label, open_topic in FILLED.items()
            ),
        ],
    )


@contextmanager
def _consume(
    open_topic: OpenTopic, payloads: Sequence[bytes], batch_count: int, work: Work
) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder, closing(open_topic(folder)) as topic:
        fill(topic, payloads, batch_count)

        def run() -> float:
            return sum(map(len, topic.fetches()))

        yield run


@contextmanager
def _iterate(payloads: Sequence[bytes], batch_count: int, work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder, closing(LakebedTopic(folder)) as topic:
        fill(topic, payloads, batch_count)

        def run() -> float:
            return sum(1 for _ in topic.messages())

        yield run


def fill(topic: Topic, payloads: Sequence[bytes], batch_count: int) -> None:
    for _ in range(batch_count):
        topic.append(payloads)


def encoded_bytes(payloads: Sequence[bytes]) -> int:
    return sum(record_bytes(0, len(payload)) for payload in payloads)


def random_payloads(size: int, work: Work) -> list[bytes]:
    source = random.Random(size)
    return [source.randbytes(size) for _ in range(work.batch_records)]


def tiny(scratch: Path) -> Work:
    """For tests: little of everything, and no limit of time."""
    return replace(
        FULL,
        scratch=scratch,
        batch_records=50,
        burst_bytes=68_000,
        burst_s_max=float("inf"),
        burst_rest_s=0,
        sustained_bytes=136_000,
        sustained_s_max=float("inf"),
        sustained_rest_s=0,
        read_bytes=100 * KIB,
        lease_batches=3,
        lease_rest_s=0,
        restart_acks=200,
    )
