"""What is on record as lost: listed, and acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.api import damage
from lakebed.api.operation import Operation
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service


async def list_damage(service: Service, _call: Call) -> damage.DamageList:
    ledger = service.store.damage.ledger
    return damage.DamageList([*ledger.records], ledger.forgotten_count)


async def acknowledge_damage(service: Service, call: Call) -> damage.Acknowledged:
    record_id = call.number("damage")
    record = await service.run(lambda: service.store.damage.acknowledge(record_id))
    return damage.Acknowledged(record)


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    damage.LIST_DAMAGE: list_damage,
    damage.ACKNOWLEDGE_DAMAGE: acknowledge_damage,
}
