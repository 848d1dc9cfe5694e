"""Consumer groups: messages leased and acked in batches of 1,000, and a group opened again.

- lakebed: `lease`, then `ack_all`, durable when it returns;
- Redis Streams: `XREADGROUP`, and `XACK` in one `MULTI` with the next `XREADGROUP`; one sync for
  both, `appendfsync always`;
- NATS JetStream: a pull consumer with explicit acks. All acks of a batch are in flight, and the
  last one is confirmed. They are *not* durable then, not even with `sync_interval: always`: the
  server writes a consumer's state in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from bench.aof_stores import scratch_folder
from bench.nats_peer import NatsStream
from bench.redis_peer import RedisStream
from bench.row import Contestant, Row, Run
from bench.topics import FILLED, FULL, OpenTopic, Topic, Work, fill, random_payloads
from bench.topics_ours import LakebedTopic

GROUP = "billing"


class Queue(Topic, Protocol):
    """A topic with one group."""

    def create_group(self) -> None:
        """One that has seen nothing."""

    def rewind_group(self) -> None:
        """All messages can be leased again."""

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int:
        """Batch after batch; returns the number of messages."""


OpenQueue = Callable[[Path], Queue]

# How it is filled, and how it is opened then.
QUEUES: dict[str, tuple[OpenTopic, OpenQueue]] = {
    "lakebed": (LakebedTopic, LakebedTopic),
    "Redis Streams": (FILLED["Redis Streams"], RedisStream),
    "NATS JetStream": (FILLED["NATS JetStream"], NatsStream),
}


def rows(work: Work = FULL) -> Iterator[Row]:
    yield lease_row("groups/lease and ack 1,000/100 B", random_payloads(100, work), work)
    yield restart_row(f"groups/open after {work.restart_acks:,} acks", work)


# Leasing.


def lease_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    return Row(
        name=name,
        unit="messages",
        baseline="Redis Streams",
        burst_rest_s=work.lease_rest_s,
        note=(
            f"{work.lease_batches} batches, from the first message on; before each the group is "
            "rewound, untimed. The acks of NATS are confirmed, but not durable."
        ),
        contestants=[
            Contestant(label, partial(_drain, open_filling, open_queue, payloads, work))
            for label, (open_filling, open_queue) in QUEUES.items()
        ],
    )


class Drain:
    """Leases and acks all there is; then it has to rest."""

    def __init__(self, queue: Queue, *, batch_count: int, batch_records: int) -> None:
        self._queue = queue
        self._batch_count = batch_count
        self._batch_records = batch_records
        self._is_empty = False
        queue.create_group()

    def __call__(self) -> float:
        self.rest()
        self._is_empty = True
        return self._queue.lease_and_ack(self._batch_count, self._batch_records)

    def rest(self) -> None:
        if self._is_empty:
            self._queue.rewind_group()
            self._is_empty = False


@contextmanager
def _drain(
    open_filling: OpenTopic, open_queue: OpenQueue, payloads: Sequence[bytes], work: Work
) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        with closing(open_filling(folder)) as topic:
            fill(topic, payloads, work.lease_batches)
        with closing(open_queue(folder)) as queue:
            yield Drain(queue, batch_count=work.lease_batches, batch_records=len(payloads))


# Opening again. The peers start a server, or have no groups: it is ours alone.


def restart_row(name: str, work: Work) -> Row:
    put_off = work.restart_acks // 10
    ours = Contestant("lakebed", partial(_open_again, work, put_off=0))
    gaps = Contestant(f"lakebed, {put_off:,} put off", partial(_open_again, work, put_off=put_off))
    note = (
        "a store is opened with its topic and group, and closed. Put off: the same number of acks "
        "again, and between each two of them a message that was returned with a delay."
    )
    return Row(name=name, unit="openings", baseline=ours.name, contestants=[ours, gaps], note=note)


@contextmanager
def _open_again(work: Work, *, put_off: int) -> Iterator[Run]:
    payloads = random_payloads(100, work)
    ack_batches = work.restart_acks // len(payloads)
    gap_batches = -(-2 * put_off // len(payloads))
    with scratch_folder(work.scratch) as folder:
        with closing(LakebedTopic(folder)) as topic:
            fill(topic, payloads, ack_batches + gap_batches)
            topic.open_group(GROUP)
            acked = topic.lease_and_ack(ack_batches, len(payloads))
            acked += topic.put_off_every_second(gap_batches, len(payloads))
            expected = work.restart_acks + gap_batches * len(payloads) // 2
            assert acked == expected, "not all could be leased"

        def run() -> float:
            with closing(LakebedTopic(folder)) as opened:
                opened.open_group(GROUP)
            return 1

        yield run
