"""Events: made from a seed, produced to a topic of the node, and found there again by their ids.

An event is a JSON object: its id, a user, what they did, an amount in cents, and when. Ids are
0, 1, 2 and so on, in the order of production; a batch that is not acknowledged ends the run, so
what was acknowledged is all ids below a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from lakebed.client.topic import RemoteTopic
    from lakebed.node.demo.context import DemoContext
    from lakebed.store.topics import StoreTopic

TOPIC: Final = "events"
PARTITIONS: Final = 4
BATCH_COUNT: Final = 2_000  # events that are acknowledged together, at most
SCHEMA: Final = "id BIGINT, user STRING, kind STRING, amount BIGINT, time TIMESTAMP"
KINDS: Final = ("view", "click", "cart", "order", "refund")

_WEIGHTS: Final = (60, 25, 8, 6, 1)
_USERS: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Batch(NamedTuple):
    """Events that follow one another, and what they add up to, by kind."""

    values: list[bytes]
    counts: Counter[str]
    amounts: Counter[str]  # cents


class EventSource:
    """Makes them: the same seed, the same events, but for their times. Not thread-safe."""

    def __init__(self, *, seed: int, start_ms: int) -> None:
        self._random = Random(seed)
        self._start = _EPOCH + timedelta(milliseconds=start_ms)
        self._next = 0

    def batch(self, count: int) -> Batch:
        """The next ones; a millisecond lies between two of them."""
        random = self._random
        kinds = random.choices(KINDS, _WEIGHTS, k=count)
        made = Batch([], Counter(kinds), Counter())
        for number, kind in enumerate(kinds, start=self._next):
            amount = 1 + int(random.random() * 20_000)
            user = int(random.random() * _USERS)
            time = (self._start + timedelta(milliseconds=number)).isoformat(timespec="milliseconds")
            made.amounts[kind] += amount
            made.values.append(
                b'{"id":%d,"user":"user-%d","kind":"%s","amount":%d,"time":"%s"}'
                % (number, user, kind.encode(), amount, time.encode())
            )
        self._next += count
        return made


class Moment(NamedTuple):
    """How many events were acknowledged by then."""

    at_ns: int
    event_count: int


@dataclass
class Ledger:
    """What was acknowledged. One thread adds to it at a time; others may look at the counts."""

    event_count: int = 0
    size_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    amounts: Counter[str] = field(default_factory=Counter)
    moments: list[Moment] = field(default_factory=list)

    def add(self, batch: Batch, *, at_ns: int) -> None:
        self.counts += batch.counts
        self.amounts += batch.amounts
        self.size_bytes += sum(map(len, batch.values))
        self.event_count += len(batch.values)  # last: who sees it may look at the rest
        self.moments.append(Moment(at_ns, self.event_count))


class Production(NamedTuple):
    """Where events come from and go to, and the ledger of what was acknowledged."""

    source: EventSource
    topic: RemoteTopic
    ledger: Ledger

    def some(self, count: int, context: DemoContext) -> None:
        """Produce one batch; it is durable when this returns."""
        batch = self.source.batch(count)
        self.topic.append_batch(batch.values).result()
        self.ledger.add(batch, at_ns=context.now_ns())


def produce(context: DemoContext, producing: Production) -> None:
    """As many as the scale says, batch by batch."""
    ledger, total = producing.ledger, context.scale.events
    context.watcher.begin("produce", total=total, unit="events")
    began_ns = context.now_ns()
    ledger.moments.append(Moment(began_ns, 0))
    while ledger.event_count < total:
        producing.some(min(BATCH_COUNT, total - ledger.event_count), context)
        context.watcher.advance(ledger.event_count, size_bytes=ledger.size_bytes)
    rate = context.rate("events produced", total, began_ns)
    found = sum(one.high_watermark() for one in producing.topic.partitions)
    context.check("events in the topic", expected=total, found=found)
    context.report(
        "produced",
        f"{total:,} events to {PARTITIONS} partitions of a topic, each durable before it was "
        f"acknowledged: {rate:,} events/s",
    )


class _Id(msgspec.Struct):
    id: int


def ids_in(topic: RemoteTopic | StoreTopic) -> Iterator[int]:
    """Of all events that are there, in no order."""
    decode = msgspec.json.Decoder(_Id).decode
    for partition in topic.partitions:
        for batch in partition.read_batches():
            for value in batch.values():
                if value is not None:
                    yield decode(value).id


def rates_between(moments: Sequence[Moment], *, step_ns: int) -> list[tuple[float, float]]:
    """Seconds since the first moment, and the events a second of the step that begins there."""
    if not moments:
        return []
    first_ns = moments[0].at_ns
    steps = Counter[int]()
    known = moments[0].event_count
    for at_ns, event_count in moments:
        steps[(at_ns - first_ns) // step_ns] += event_count - known
        known = event_count
    seconds = step_ns / 1e9
    return [(step * seconds, steps[step] / seconds) for step in range(max(steps) + 1)]
