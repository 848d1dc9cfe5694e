"""The format of a pin's file. A pin protects segments of a log, or messages of a partition, from
retention until it expires.

    {"version": 1, "log": "orders", "segments": {"start": 3, "end": 7},
     "expires_ms": 1700000600000, "owner": "nightly backup", "created_ms": 1700000000000}

    {"version": 1, "topic": "orders", "partition": 0, "offsets": {"start": 3, "end": 700},
     "expires_ms": 1700000600000, "owner": "nightly backup", "created_ms": 1700000000000,
     "renewed_ms": 1700000300000}

Ranges are half-open. Times are in milliseconds since 1970. `renewed_ms` is missing until the pin is
renewed for the first time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from lakebed.aof.paths import check_log_name
from lakebed.aof.record_id import SEGMENT_INDEX_MAX
from lakebed.base.errors import Corrupt, InputError
from lakebed.keratin.format import OFFSET_MAX
from lakebed.keratin.paths import check_partition, check_topic_name

VERSION = 1
OWNER_CHARACTERS_MAX = 200
DURATION_MS_MAX = 7 * 24 * 3600 * 1000

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """Protects segments of a log, or messages of a partition, from retention until `expires_ms`.

    The range is `[start, end)`: segment ids or offsets.
    """

    pin_id: str
    start: int
    end: int
    expires_ms: int  # since 1970, as are created_ms and renewed_ms
    owner: str
    created_ms: int
    log: str | None = None
    topic: str | None = None
    partition: int | None = None
    renewed_ms: int | None = None  # None until the pin is renewed for the first time

    def is_in_effect(self, now_ms: int) -> bool:
        """Whether the pin protects its range at `now_ms`.

        Returns False if the pin has expired. Also returns False if it expires more than
        `DURATION_MS_MAX` after `now_ms`, because no valid pin lasts that long. If the clock was set
        back, so that the pin was created or last renewed after `now_ms`, that time counts instead
        of `now_ms`.
        """
        given_ms = self.created_ms if self.renewed_ms is None else self.renewed_ms
        lasts_ms = self.expires_ms - max(given_ms, now_ms)
        return now_ms < self.expires_ms and lasts_ms <= DURATION_MS_MAX

    def covers(self, log: str, segment_id: int) -> bool:
        return self.log == log and self.start <= segment_id < self.end

    def overlaps(self, topic: str, partition: int, start: int, end: int) -> bool:
        """Whether this pin protects any message of `[start, end)` in the partition."""
        is_same = (self.topic, self.partition) == (topic, partition)
        return is_same and self.start < end and start < self.end


def encode_pin(pin: Pin) -> bytes:
    target: dict[str, object]
    span = {"start": pin.start, "end": pin.end}
    if pin.log is not None:
        target = {"log": pin.log, "segments": span}
    else:
        target = {"topic": pin.topic, "partition": pin.partition, "offsets": span}
    document = {
        "version": VERSION,
        **target,
        "expires_ms": pin.expires_ms,
        "owner": pin.owner,
        "created_ms": pin.created_ms,
        **({} if pin.renewed_ms is None else {"renewed_ms": pin.renewed_ms}),
    }
    return json.dumps(document).encode("ascii") + b"\n"


def decode_pin(data: bytes, *, pin_id: str) -> Pin:
    """Decodes `data`, the content of a pin's file.

    Raises `Corrupt` if it is not a pin of this version, and `InputError` as `check_pin` does.
    """
    try:
        document = json.loads(data)
        version = document["version"]
        pin = _segments(document, pin_id) if "log" in document else _offsets(document, pin_id)
    except (ValueError, TypeError, LookupError, RecursionError):
        raise Corrupt("the file is not a pin") from None
    if version != VERSION:
        raise Corrupt("the pin has an unsupported version", expected=VERSION, found=version)
    check_pin(pin)
    return pin


def check_pin(pin: Pin) -> None:
    """Raises `InputError` unless the pin's log or partition, range and owner are valid.

    The times are not checked.
    """
    if pin.log is not None and pin.topic is None and pin.partition is None:
        if not 0 <= pin.start < pin.end <= SEGMENT_INDEX_MAX + 1:
            raise InputError(
                "a pin needs a range of segment ids [start, end) with 0 <= start < end <= "
                f"{SEGMENT_INDEX_MAX + 1}, not [{pin.start}, {pin.end})"
            )
        check_log_name(pin.log)
    elif pin.log is None and pin.topic is not None and pin.partition is not None:
        if not 0 <= pin.start < pin.end <= OFFSET_MAX:
            raise InputError(
                "a pin needs a range of offsets [start, end) with 0 <= start < end <= "
                f"{OFFSET_MAX}, not [{pin.start}, {pin.end})"
            )
        check_topic_name(pin.topic)
        check_partition(pin.partition)
    else:
        raise InputError("a pin needs either a log, or a topic and a partition, and not both")
    if not 0 < len(pin.owner) <= OWNER_CHARACTERS_MAX:
        raise InputError(
            f"the owner of a pin must have 1 to {OWNER_CHARACTERS_MAX} characters, "
            f"not {len(pin.owner)}"
        )


def _segments(document: Mapping[str, Any], pin_id: str) -> Pin:
    return Pin(
        pin_id=pin_id,
        log=_typed(document["log"], str),
        start=_typed(document["segments"]["start"], int),
        end=_typed(document["segments"]["end"], int),
        expires_ms=_typed(document["expires_ms"], int),
        owner=_typed(document["owner"], str),
        created_ms=_typed(document["created_ms"], int),
        renewed_ms=_typed(document["renewed_ms"], int) if "renewed_ms" in document else None,
    )


def _offsets(document: Mapping[str, Any], pin_id: str) -> Pin:
    return Pin(
        pin_id=pin_id,
        topic=_typed(document["topic"], str),
        partition=_typed(document["partition"], int),
        start=_typed(document["offsets"]["start"], int),
        end=_typed(document["offsets"]["end"], int),
        expires_ms=_typed(document["expires_ms"], int),
        owner=_typed(document["owner"], str),
        created_ms=_typed(document["created_ms"], int),
        renewed_ms=_typed(document["renewed_ms"], int) if "renewed_ms" in document else None,
    )


def _typed(value: object, kind: type[Plain]) -> Plain:
    # `True` is an int in Python, but not in JSON.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError
    return value
