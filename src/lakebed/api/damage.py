"""The calls for the damage ledger: listing recorded losses of data, and acknowledging them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from lakebed.api.operation import Operation
from lakebed.base.damage_ledger import DamageRecord, Ledger

_TAG = "damage"


class Acknowledged(Struct, frozen=True):
    record: DamageRecord


LIST_DAMAGE: Final = Operation(
    "list_damage", "GET", "/v1/damage", "List losses on record, acknowledged or not",
    Ledger, tag=_TAG, target="Damage.ledger", is_repeatable=True,
)  # fmt: skip
ACKNOWLEDGE_DAMAGE: Final = Operation(
    "acknowledge_damage", "POST", "/v1/damage/{damage}/acknowledge",
    "Acknowledge a loss: verification no longer reports it, and readers skip it",
    Acknowledged, tag=_TAG, target="Damage.acknowledge", errors=(404,), is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (LIST_DAMAGE, ACKNOWLEDGE_DAMAGE)
