"""Consumes messages with a group, and acks them; the first one is nacked and acked when it is
delivered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lakebed.client.group import RemoteGroup
    from lakebed.client.topic import RemoteTopic
    from lakebed.node.demo.context import DemoContext
    from lakebed.store.group import Group
    from lakebed.store.topics import StoreTopic

GROUP: Final = "billing"
LEASE_COUNT: Final = 2_000

Place = tuple[int, int]  # partition and offset


class SettledMessages(NamedTuple):
    """The messages that the demo's consumer acked, and the message that it first nacked."""

    places: frozenset[Place]  # of the acked messages
    given_back: Place  # of the nacked message
    came_again: int  # how many times the nacked message was delivered again
    repeated: int  # how many times an acked message was delivered again: must be 0


def settle(
    context: DemoContext, topic: RemoteTopic | StoreTopic, *, event_count: int
) -> SettledMessages:
    """Leases and acks at least `context.scale.settled` messages, or all if the topic has fewer.

    `event_count` is the number of messages in the topic.
    """
    context.watcher.begin("consume", total=context.scale.settled, unit="messages")
    began_ns = context.now_ns()
    group = topic.group(GROUP)
    done = _first(group)
    while len(done.places) < context.scale.settled or not done.came_again:
        more = _next(group, done)
        if len(more.places) == len(done.places):
            break  # nothing is left
        done = more
        context.watcher.advance(len(done.places))
    count = len(done.places)
    rate = context.rate("messages consumed", count, began_ns)
    left = sum(group.lag().values())
    context.check("messages settled by the group", expected=count, found=event_count - left)
    context.check("returned message delivered again", expected=1, found=done.came_again)
    context.report(
        "consumed",
        f"{count:,} messages leased and acked by a group, {rate:,} messages/s; "
        "one was returned and delivered again",
    )
    return done


def lease_again(
    context: DemoContext, topic: RemoteTopic | StoreTopic, settled: SettledMessages
) -> None:
    """Leases messages after the restart, and checks that no acked message is delivered again."""
    done = _next(topic.group(GROUP), settled)
    context.check("settled messages delivered again", expected=0, found=done.repeated)


def _first(group: RemoteGroup | Group) -> SettledMessages:
    """Leases the first messages, nacks one of them and acks the others."""
    messages = group.lease(max_messages=LEASE_COUNT)
    failing, *rest = messages
    group.nack(failing)
    group.ack_all(rest)
    places = frozenset((message.partition, message.offset) for message in rest)
    return SettledMessages(places, (failing.partition, failing.offset), came_again=0, repeated=0)


def _next(group: RemoteGroup | Group, done: SettledMessages) -> SettledMessages:
    messages = group.lease(max_messages=LEASE_COUNT)
    group.ack_all(messages)
    places = {(message.partition, message.offset) for message in messages}
    return done._replace(
        places=done.places | places,
        came_again=done.came_again + (done.given_back in places),
        repeated=done.repeated + len(done.places & places),
    )
