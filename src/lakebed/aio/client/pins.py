# Made by `python -m tools.asynced` of `src/lakebed/client/pins.py`: edit that.
"""Pins in a store that another process has open: as `lakebed.store.pins.Pins`."""

from __future__ import annotations

from collections.abc import Iterable

from lakebed.aio.client.caller import Caller
from lakebed.api import pins as wire
from lakebed.store.pin_file import Pin


class AsyncPins:
    """For one event loop."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def pin(
        self, log: str, *, segment_start: int, segment_end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pin the segments `[segment_start, segment_end)`; durable when it returns."""
        return await self.create(
            log=log, start=segment_start, end=segment_end, duration_ms=duration_ms, owner=owner
        )

    async def pin_offsets(
        self, topic: str, partition: int, *, start: int, end: int, duration_ms: int, owner: str
    ) -> Pin:
        """Pin the messages `[start, end)` of a partition; durable when it returns."""
        return await self.create(
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            duration_ms=duration_ms,
            owner=owner,
        )

    async def create(
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
        """As `pin` if a log is given, as `pin_offsets` if a topic and a partition are.

        Cancelled, it releases what comes of it.
        """
        body = wire.NewPin(start, end, duration_ms, owner, log, topic, partition)
        pinning = self._caller.call(wire.CREATE_PIN, body=body)
        return await self._caller.undo_on_cancel.run(
            pinning, None, lambda pin: self.release(pin.pin_id)
        )

    async def renew(self, pin_id: str, *, duration_ms: int) -> Pin:
        """Let it last that long from now; `NotFound` if it was released or expired already."""
        body = wire.RenewPin(duration_ms=duration_ms)
        return await self._caller.call(wire.RENEW_PIN, {"pin": pin_id}, body=body)

    async def renew_all(self, pin_ids: Iterable[str], *, duration_ms: int) -> list[str]:
        """Let them last about that long from now; which of them were there."""
        body = wire.RenewPins(list(pin_ids), duration_ms=duration_ms)
        return (await self._caller.call(wire.RENEW_PINS, body=body)).pin_ids

    async def release_all(self, pin_ids: Iterable[str]) -> None:
        """Remove them, as far as it can be done: what is left expires."""
        await self._caller.call(wire.RELEASE_PINS, body=wire.ReleasePins(list(pin_ids)))

    async def release(self, pin_id: str) -> None:
        """Remove it. Idempotent."""
        await self._caller.call(wire.RELEASE_PIN, {"pin": pin_id})

    async def active(self) -> list[Pin]:
        """The pins of logs that count now."""
        return [pin for pin in await self.all_active() if pin.log is not None]

    async def active_offsets(self) -> list[Pin]:
        """The pins of partitions that count now."""
        return [pin for pin in await self.all_active() if pin.log is None]

    async def all_active(self) -> list[Pin]:
        """The pins that count now, those of logs first."""
        return (await self._caller.call(wire.LIST_PINS)).pins
