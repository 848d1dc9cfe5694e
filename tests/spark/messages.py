"""Topics with all that a message can have, and what is in them, for jobs that copy them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from lakebed.host.store import Store
from lakebed.store.read_only import ReadOnlyStore

FIRST_MS = 1_700_000_000_000


class Told(NamedTuple):
    """A message without its offset."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def special(number: int) -> Told:
    """One of each kind: plain, without a key, a tombstone, empty, with headers of one name."""
    stamp = FIRST_MS + 1000 * number
    return (
        Told(stamp, b"key %d" % (number % 7), b"value %d" % number, ()),
        Told(stamp, None, b"\x00\xff no text", ()),
        Told(stamp, b"gone", None, (("why", b"deleted"),)),
        Told(stamp, b"", b"", (("a", b"1"), ("a", None), ("", b""), ("a", b"1"))),
        Told(stamp + 123, "ключ".encode(), b"x" * 300, (("größe", b"\x00"),)),
    )[number % 5]


def fill_special(root: Path, topic: str, *, partitions: int, count: int) -> None:
    """`count` messages in each partition; a topic that is new."""
    with Store.open(root, serves=False) as store:
        made = store.topics.create(topic, partitions=partitions)
        for partition in made.partitions:
            messages = [special(number + partition.number) for number in range(count)]
            partition.append_batch(
                [one.value for one in messages],
                keys=[one.key for one in messages],
                headers=[list(one.headers) for one in messages],
                timestamps_ms=[one.timestamp_ms for one in messages],
            ).result()


def told(root: Path, topic: str) -> list[list[Told]]:
    """Of each partition, in their order."""
    with ReadOnlyStore(root) as store:
        return [
            [
                Told(one.timestamp_ms, one.key, one.value, tuple(one.headers))
                for one in partition.scan_from(0)
            ]
            for partition in store.topic(topic).partitions
        ]
