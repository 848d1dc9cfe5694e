"""The pins of a remote store: the remote form of `lakebed.store.pins.Pins`."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.api import pins as wire
from lakebed.client.caller import Caller
from lakebed.store.pin_file import Pin


class RemotePins:
    """The pins of a remote store. Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins the segments `[segment_start, segment_end)` of a log for `duration_ms`, so that
        retention does not remove them."""
        return self.create(
            log=log, start=segment_start, end=segment_end, duration_ms=duration_ms, owner=owner
        )

    def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pins the messages with offsets `[start, end)` of a partition for `duration_ms`, so that
        retention does not remove them."""
        return self.create(
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            duration_ms=duration_ms,
            owner=owner,
        )

    def create(
        self,
        *,
        start: int,
        end: int,
        duration_ms: int,
        owner: str,
        log: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Pin:
        """Pins `[start, end)` for `duration_ms`, so that retention does not remove it: segments if
        `log` is given, or messages by their offsets if `topic` and `partition` are given."""
        body = wire.NewPin(start, end, duration_ms, owner, log, topic, partition)
        return self._caller.call(wire.CREATE_PIN, body=body)

    def renew(self, pin_id: str, *, duration_ms: int) -> Pin:
        """Makes a pin expire `duration_ms` from now. Raises `NotFound` if it was released or has
        expired."""
        body = wire.RenewPin(duration_ms=duration_ms)
        return self._caller.call(wire.RENEW_PIN, {"pin": pin_id}, body=body)

    def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Makes pins expire about `duration_ms` from now. Returns the ids of the pins that still
        existed; the others were released or had expired."""
        body = wire.RenewPins(list(pin_ids), duration_ms=duration_ms)
        return self._caller.call(wire.RENEW_PINS, body=body).pin_ids

    def release_all(self, pin_ids: Iterable[str]) -> None:
        """Removes pins. A pin that the server cannot remove is left to expire, without an error."""
        self._caller.call(wire.RELEASE_PINS, body=wire.ReleasePins(list(pin_ids)))

    def release(self, pin_id: str) -> None:
        """Removes a pin. Idempotent."""
        self._caller.call(wire.RELEASE_PIN, {"pin": pin_id})

    def active(self) -> list[Pin]:
        """Lists the pins of logs, without those that have expired."""
        return [pin for pin in self.all_active() if pin.log is not None]

    def active_offsets(self) -> list[Pin]:
        """Lists the pins of topics, without those that have expired."""
        return [pin for pin in self.all_active() if pin.log is None]

    def all_active(self) -> list[Pin]:
        """Lists all pins, without those that have expired: pins of logs before pins of topics."""
        return self._caller.call(wire.LIST_PINS).pins
