"""Pins: made, renewed, released and listed for readers elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lakebed.api import logs
from lakebed.api.operation import Operation
from lakebed.base.errors import InputError
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.store.pin_file import AnyPin, Pin
from lakebed.store.pins import Pins


async def list_pins(service: Service, _call: Call) -> logs.PinList:
    return logs.PinList(await service.run(partial(_active, service.store.pins)))


async def create_pin(service: Service, call: Call) -> logs.PinState:
    asked = await call.document(logs.NewPin)
    return state_of(await service.run(partial(_made, service.store.pins, asked)))


async def renew_pin(service: Service, call: Call) -> logs.PinState:
    asked = await call.document(logs.RenewPin)
    renew = service.store.pins.renew
    return state_of(
        await service.run(partial(renew, call.names["pin"], duration_ms=asked.duration_ms))
    )


async def release_pin(service: Service, call: Call) -> None:
    await service.run(partial(service.store.pins.release, call.names["pin"]))


async def renew_pins(service: Service, call: Call) -> logs.RenewedPins:
    asked = await call.document(logs.RenewPins)
    renew = partial(service.store.pins.renew_all, asked.pin_ids, duration_ms=asked.duration_ms)
    return logs.RenewedPins(await service.run(renew))


async def release_pins(service: Service, call: Call) -> None:
    asked = await call.document(logs.ReleasePins)
    await service.run(partial(service.store.pins.release_all, asked.pin_ids))


def _active(pins: Pins) -> list[logs.PinState]:
    now: list[AnyPin] = [*pins.active(), *pins.active_offsets()]
    return list(map(state_of, now))


def _made(pins: Pins, asked: logs.NewPin) -> AnyPin:
    if asked.log is not None and asked.topic is None and asked.partition is None:
        return pins.pin(
            asked.log,
            segment_start=asked.start,
            segment_end=asked.end,
            duration_ms=asked.duration_ms,
            owner=asked.owner,
        )
    if asked.log is None and asked.topic is not None and asked.partition is not None:
        return pins.pin_offsets(
            asked.topic,
            asked.partition,
            start=asked.start,
            end=asked.end,
            duration_ms=asked.duration_ms,
            owner=asked.owner,
        )
    raise InputError("a pin is of a log's segments, or of a topic's partition: say one of both")


def state_of(pin: AnyPin) -> logs.PinState:
    if isinstance(pin, Pin):
        return logs.PinState(
            pin_id=pin.pin_id,
            start=pin.segment_start,
            end=pin.segment_end,
            expires_ms=pin.expires_ms,
            owner=pin.owner,
            created_ms=pin.created_ms,
            log=pin.log,
        )
    return logs.PinState(
        pin_id=pin.pin_id,
        start=pin.offset_start,
        end=pin.offset_end,
        expires_ms=pin.expires_ms,
        owner=pin.owner,
        created_ms=pin.created_ms,
        topic=pin.topic,
        partition=pin.partition,
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.LIST_PINS: list_pins,
    logs.CREATE_PIN: create_pin,
    logs.RENEW_PIN: renew_pin,
    logs.RELEASE_PIN: release_pin,
    logs.RENEW_PINS: renew_pins,
    logs.RELEASE_PINS: release_pins,
}
