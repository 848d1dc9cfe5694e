"""One pin, and how it is written: segments of a log, or messages of a partition, until a moment.

    {"version": 1, "log": "orders", "segments": {"start": 3, "end": 7},
     "expires_ms": 1700000600000, "owner": "nightly backup", "created_ms": 1700000000000}

    {"version": 1, "topic": "orders", "partition": 0, "offsets": {"start": 3, "end": 700},
     "expires_ms": 1700000600000, "owner": "nightly backup", "created_ms": 1700000000000}

Ranges are half-open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from lakebed.aof.paths import check_log_name
from lakebed.aof.record_id import SEGMENT_INDEX_MAX
from lakebed.base.errors import Corrupt, InputError
from lakebed.keratin.format import OFFSET_MAX
from lakebed.keratin.paths import check_partition, check_topic_name

VERSION = 1
OWNER_CHARACTERS_MAX = 200

Plain = TypeVar("Plain", int, str)


class SegmentRange(NamedTuple):
    """Segments `[start, end)` of a log."""

    log: str
    start: int
    end: int


class OffsetRange(NamedTuple):
    """Messages `[start, end)` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


class Pin(NamedTuple):
    """Segments `[segment_start, segment_end)` of a log, until `expires_ms`."""

    pin_id: str
    log: str
    segment_start: int
    segment_end: int
    expires_ms: int  # since 1970, as created_ms
    owner: str
    created_ms: int

    def covers(self, log: str, segment_id: int) -> bool:
        return self.log == log and self.segment_start <= segment_id < self.segment_end


class OffsetPin(NamedTuple):
    """Messages `[offset_start, offset_end)` of a partition, until `expires_ms`."""

    pin_id: str
    topic: str
    partition: int
    offset_start: int
    offset_end: int
    expires_ms: int  # since 1970, as created_ms
    owner: str
    created_ms: int

    def overlaps(self, topic: str, partition: int, start: int, end: int) -> bool:
        """Whether any message of `[start, end)` is pinned."""
        is_same = (self.topic, self.partition) == (topic, partition)
        return is_same and self.offset_start < end and start < self.offset_end


AnyPin = Pin | OffsetPin


def encode_pin(pin: AnyPin) -> bytes:
    target: dict[str, object]
    if isinstance(pin, Pin):
        target = {
            "log": pin.log,
            "segments": {"start": pin.segment_start, "end": pin.segment_end},
        }
    else:
        target = {
            "topic": pin.topic,
            "partition": pin.partition,
            "offsets": {"start": pin.offset_start, "end": pin.offset_end},
        }
    document = {
        "version": VERSION,
        **target,
        "expires_ms": pin.expires_ms,
        "owner": pin.owner,
        "created_ms": pin.created_ms,
    }
    return json.dumps(document).encode("ascii") + b"\n"


def decode_pin(data: bytes, *, pin_id: str) -> AnyPin:
    """`Corrupt` or `InputError` if it is no pin of this version."""
    try:
        document = json.loads(data)
        version = document["version"]
        pin = _segments(document, pin_id) if "log" in document else _offsets(document, pin_id)
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Corrupt("not a pin") from None
    if version != VERSION:
        raise Corrupt("a pin of a version that is not read", expected=VERSION, found=version)
    check_pin(pin)
    return pin


def check_pin(pin: AnyPin) -> None:
    """`InputError` unless every field is within its limits."""
    if isinstance(pin, Pin):
        if not 0 <= pin.segment_start < pin.segment_end <= SEGMENT_INDEX_MAX + 1:
            raise InputError(f"no segments are in [{pin.segment_start}, {pin.segment_end})")
        check_log_name(pin.log)
    else:
        if not 0 <= pin.offset_start < pin.offset_end <= OFFSET_MAX:
            raise InputError(f"no offsets are in [{pin.offset_start}, {pin.offset_end})")
        check_topic_name(pin.topic)
        check_partition(pin.partition)
    if not 0 < len(pin.owner) <= OWNER_CHARACTERS_MAX:
        raise InputError(f"the owner has 1 to {OWNER_CHARACTERS_MAX} characters")


def _segments(document: Mapping[str, Any], pin_id: str) -> Pin:
    return Pin(
        pin_id=pin_id,
        log=_typed(document["log"], str),
        segment_start=_typed(document["segments"]["start"], int),
        segment_end=_typed(document["segments"]["end"], int),
        expires_ms=_typed(document["expires_ms"], int),
        owner=_typed(document["owner"], str),
        created_ms=_typed(document["created_ms"], int),
    )


def _offsets(document: Mapping[str, Any], pin_id: str) -> OffsetPin:
    return OffsetPin(
        pin_id=pin_id,
        topic=_typed(document["topic"], str),
        partition=_typed(document["partition"], int),
        offset_start=_typed(document["offsets"]["start"], int),
        offset_end=_typed(document["offsets"]["end"], int),
        expires_ms=_typed(document["expires_ms"], int),
        owner=_typed(document["owner"], str),
        created_ms=_typed(document["created_ms"], int),
    )


def _typed(value: object, kind: type[Plain]) -> Plain:
    # `True` is an int to Python, and none to whoever wrote the file.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError
    return value
