"""Reads the dead letters of a group that were not sent back yet.

Works while another process writes the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, starmap

from lakebed.base.errors import NotFound
from lakebed.store.dead_letters import DeadLetter, dead_letter_topic, origin_of
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.topics import REDRIVE_PREFIX


def dead_letters_of(store: ReadOnlyStore, topic: str, group: str) -> Iterator[DeadLetter]:
    """Yields a group's dead letters that were not sent back, partition by partition.

    The letters of a partition are in the order in which they were written. Yields nothing if there
    is no such topic, or it has no dead letters.
    """
    try:
        topic_id = store.topic(topic).identity.topic_id
        letters = store.topic(dead_letter_topic(topic))
    except NotFound:
        return
    try:
        redrive_group = letters.group(REDRIVE_PREFIX + group)
    except NotFound:
        redrive_group = None
    for partition in letters.partitions:
        kept = [(partition.start_offset(), partition.high_watermark())]
        if redrive_group is not None:
            kept = redrive_group.unsettled(partition)
        for message in chain.from_iterable(starmap(partition.read, kept)):
            origin = origin_of(message)
            if origin is not None and origin.is_of(topic, topic_id=topic_id, group=group):
                yield DeadLetter.of(origin, message)
