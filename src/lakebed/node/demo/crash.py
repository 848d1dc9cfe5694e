"""Kills the node while a producer is running, restarts it, and checks that no event was lost.

The producer's client sends unacknowledged events again until the node responds, and the node stores
them only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Busy, LakebedError
from lakebed.node.demo.checks import tally
from lakebed.node.demo.events import Moment, ids_in

if TYPE_CHECKING:
    from lakebed.node.demo.context import DemoContext
    from lakebed.node.demo.events import Production
    from lakebed.node.demo.node_process import NodeProcess

BATCH_COUNT: Final = 500  # small, so that the kill interrupts a batch

_LOOK_NS: Final = 5 * NS_PER_MS
_WAIT_S: Final = 120.0


class Outage(NamedTuple):
    """When the node was killed, when it was ready again, and when the producer got its next
    acknowledgement.
    """

    killed_ns: int
    back_ns: int
    acknowledged_ns: int


def crash(context: DemoContext, node: NodeProcess, producing: Production) -> Outage:
    """Kills the node, restarts it, and checks that the topic has all acknowledged events."""
    ledger, more = producing.ledger, context.scale.more_events
    context.watcher.begin("kill -9", unit="events")
    ledger.moments.append(Moment(context.now_ns(), ledger.event_count))
    producer = _Producer(context, producing)
    task = context.runner.spawn("demo-producer", producer.step)
    try:
        producer.wait_for(ledger.event_count + more)
        killed_ns = context.now_ns()
        node.kill()
        acknowledged_count = ledger.event_count
        node.start()
        back_ns = context.now_ns()
        producer.wait_for(acknowledged_count + more)
    finally:
        producer.ends = True  # closing the client ends its pending call
    task.stop()
    producer.raise_error()
    outage = Outage(killed_ns, back_ns, first_from(ledger.moments, back_ns))
    context.report(
        "killed",
        f"the node with kill -9, after {acknowledged_count:,} acknowledged events; it was back "
        f"after {(back_ns - killed_ns) / NS_PER_S:.1f} s, and the producer, which retried, "
        f"continued after {(outage.acknowledged_ns - killed_ns) / NS_PER_S:.1f} s "
        f"up to {ledger.event_count:,} events",
    )
    look_for_all(context, producing)
    return outage


def first_from(moments: Sequence[Moment], at_ns: int) -> int:
    """Returns the time of the first moment at or after `at_ns`. There must be such a moment."""
    return next(moment.at_ns for moment in moments if moment.at_ns >= at_ns)


def look_for_all(context: DemoContext, producing: Production) -> None:
    """Checks that the topic has exactly the acknowledged events, by id."""
    count = producing.ledger.event_count
    context.watcher.begin("check all ids", unit="events")
    found = tally(ids_in(producing.topic), acknowledged_count=count)
    context.check("acknowledged events found, by id", expected=count, found=found.present)
    context.check("events stored twice", expected=0, found=found.repeated)
    context.check("events never acknowledged", expected=0, found=found.strange)
    context.report(
        "found",
        f"{found.present:,} of {count:,} acknowledged events by id, "
        f"{found.repeated} of them stored twice",
    )


class _Producer:
    """Produces events in its own thread until it is stopped or fails."""

    def __init__(self, context: DemoContext, producing: Production) -> None:
        self._ground = context
        self._producing = producing
        self._error: LakebedError | None = None
        self.ends = False

    def step(self) -> int | None:
        if self.ends or self._error is not None:
            return None
        try:
            self._producing.some(BATCH_COUNT, self._ground)
        except LakebedError as error:
            self._error = error
        return 0

    def wait_for(self, event_count: int) -> None:
        """Waits until `event_count` events are acknowledged. Raises `Busy` after two minutes, or
        the error with which the producer failed.
        """
        context, ledger = self._ground, self._producing.ledger
        until_ns = context.now_ns() + round(_WAIT_S * NS_PER_S)
        while ledger.event_count < event_count:
            self.raise_error()
            if context.now_ns() > until_ns:
                raise Busy(
                    f"only {ledger.event_count} of {event_count} events were acknowledged within "
                    f"{_WAIT_S:.0f} s"
                )
            context.runner.sleep_ns(_LOOK_NS)
            context.watcher.advance(ledger.event_count)

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error
