"""Makes events from a seed, produces them to a topic of the node, and reads them back by their ids.

An event is a JSON object with an id, a user, an action, an amount in cents and a time. Ids are 0,
1, 2 and so on in the order they are produced. The run ends if a batch is not acknowledged, so the
acknowledged events are exactly the ids below a count.
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
BATCH_COUNT: Final = 2_000  # the maximum number of events in a batch
SCHEMA: Final = "id BIGINT, user STRING, kind STRING, amount BIGINT, time TIMESTAMP"
KINDS: Final = ("view", "click", "cart", "order", "refund")

_WEIGHTS: Final = (60, 25, 8, 6, 1)
_USERS: Final = 10_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Batch(NamedTuple):
    """Consecutive events, with their totals by kind."""

    values: list[bytes]
    counts: Counter[str]
    amounts: Counter[str]  # cents


class EventSource:
    """Makes events from a seed. The same seed makes the same events, except for their times. Not
    thread-safe.
    """

    def __init__(self, *, seed: int, start_ms: int) -> None:
        self._random = Random(seed)
        self._start = _EPOCH + timedelta(milliseconds=start_ms)
        self._next = 0

    def batch(self, count: int) -> Batch:
        """Returns the next `count` events, with times one millisecond apart."""
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
    """How many events were acknowledged at a point in time."""

    at_ns: int
    event_count: int


@dataclass
class Ledger:
    """The totals of the acknowledged events. Only one thread may call `add`; other threads may read
    the totals.
    """

    event_count: int = 0
    size_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    amounts: Counter[str] = field(default_factory=Counter)
    moments: list[Moment] = field(default_factory=list)

    def add(self, batch: Batch, *, at_ns: int) -> None:
        self.counts += batch.counts
        self.amounts += batch.amounts
        self.size_bytes += sum(map(len, batch.values))
        self.event_count += len(batch.values)  # last, because readers check it first
        self.moments.append(Moment(at_ns, self.event_count))


class Production(NamedTuple):
    """The source of events, the topic they go to, and the ledger of acknowledged events."""

    source: EventSource
    topic: RemoteTopic
    ledger: Ledger

    def some(self, count: int, context: DemoContext) -> None:
        """Produces one batch of `count` events, which is durable when this returns."""
        batch = self.source.batch(count)
        self.topic.append_batch(batch.values).result()
        self.ledger.add(batch, at_ns=context.now_ns())


def produce(context: DemoContext, producing: Production) -> None:
    """Produces the number of events that `context.scale` sets, in batches."""
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
    """Yields the ids of all events in the topic, in no particular order."""
    decode = msgspec.json.Decoder(_Id).decode
    for partition in topic.partitions:
        for batch in partition.read_batches():
            for value in batch.values():
                if value is not None:
                    yield decode(value).id


def rates_between(moments: Sequence[Moment], *, step_ns: int) -> list[tuple[float, float]]:
    """Returns the events per second in each interval of `step_ns`, with the start of the interval
    in seconds since the first moment.
    """
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
