"""Pins in a store that another process has open: as `lakebed.store.pins.Pins`."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.api import logs as wire
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.store.pin_file import AnyPin, OffsetPin, Pin


class RemotePins:
    """Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pin the segments `[segment_start, segment_end)`; durable when it returns."""
        body = wire.NewPin(
            start=segment_start, end=segment_end, duration_ms=duration_ms, owner=owner, log=log
        )
        found = _pin_of(self._caller.call(wire.CREATE_PIN, body=body))
        if not isinstance(found, Pin):
            raise BadAnswer("pin: the answer is another kind of pin")
        return found

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> OffsetPin:
        """Pin the messages `[start, end)` of a partition; durable when it returns."""
        body = wire.NewPin(
            start=start,
            end=end,
            duration_ms=duration_ms,
            owner=owner,
            topic=topic,
            partition=partition,
        )
        found = _pin_of(self._caller.call(wire.CREATE_PIN, body=body))
        if not isinstance(found, OffsetPin):
            raise BadAnswer("pin_offsets: the answer is another kind of pin")
        return found

    def renew(self, pin_id: str, *, duration_ms: int) -> AnyPin:
        """Let it last that long from now; `NotFound` if it was released or expired already."""
        body = wire.RenewPin(duration_ms=duration_ms)
        return _pin_of(self._caller.call(wire.RENEW_PIN, {"pin": pin_id}, body=body))

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Let them last about that long from now; which of them were there."""
        body = wire.RenewPins(list(pin_ids), duration_ms=duration_ms)
        return self._caller.call(wire.RENEW_PINS, body=body).pin_ids

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Remove them, as far as it can be done: what is left expires."""
        self._caller.call(wire.RELEASE_PINS, body=wire.ReleasePins(list(pin_ids)))

    def release(self, pin_id: str) -> None:
        """Remove it. Idempotent."""
        self._caller.call(wire.RELEASE_PIN, {"pin": pin_id})

    def active(self) -> list[Pin]:
        """The pins of logs that count now."""
        return [pin for pin in self._all() if isinstance(pin, Pin)]

    def active_offsets(self) -> list[OffsetPin]:
        """The pins of partitions that count now."""
        return [pin for pin in self._all() if isinstance(pin, OffsetPin)]

    def _all(self) -> list[AnyPin]:
        return [_pin_of(state) for state in self._caller.call(wire.LIST_PINS).pins]


def _pin_of(state: wire.PinState) -> AnyPin:
    if state.log is not None:
        return Pin(
            pin_id=state.pin_id,
            log=state.log,
            segment_start=state.start,
            segment_end=state.end,
            expires_ms=state.expires_ms,
            owner=state.owner,
            created_ms=state.created_ms,
        )
    if state.topic is None or state.partition is None:
        raise BadAnswer("a pin of nothing")
    return OffsetPin(
        pin_id=state.pin_id,
        topic=state.topic,
        partition=state.partition,
        offset_start=state.start,
        offset_end=state.end,
        expires_ms=state.expires_ms,
        owner=state.owner,
        created_ms=state.created_ms,
    )
