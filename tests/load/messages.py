"""The messages of the load: each says who produced it and which one of theirs it is.

So whoever reads one knows whether it is as it was produced, and whether one is missing or came
twice. For the program that is killed too: it imports little.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final, NamedTuple
from zlib import crc32

TOPIC: Final = "events"
PARTITIONS: Final = 2
SCHEMA: Final = "producer STRING, id BIGINT, pad STRING"  # of the table


class Name(NamedTuple):
    """Who, and which one."""

    producer: str
    number: int


def value_of(producer: str, number: int) -> bytes:
    """JSON, as it is landed."""
    return json.dumps(
        {"producer": producer, "id": number, "pad": pad_of(producer, number)}
    ).encode()


def pad_of(producer: str, number: int) -> str:
    return sha256(f"{producer} {number}".encode()).hexdigest() * (1 + number % 3)


def name_of(value: bytes | None) -> Name:
    """Of a message that is as it was produced."""
    assert value is not None
    found = json.loads(value)
    name = Name(found["producer"], found["id"])
    assert value == value_of(*name), name
    return name


def sum_of(producer: str, count: int) -> int:
    """What SQL adds up, of the first messages of a producer."""
    return sum(crc32(pad_of(producer, number).encode()) for number in range(count))
