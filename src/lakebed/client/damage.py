"""What is on record as lost in a store that another process has open: as `DamageLedger`."""

from __future__ import annotations

from lakebed.api import damage as wire
from lakebed.base.damage_ledger import DamageRecord, Ledger
from lakebed.client.caller import Caller


class RemoteDamage:
    """Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def ledger(self) -> Ledger:
        """All that is on record."""
        return self._caller.call(wire.LIST_DAMAGE)

    def list(self) -> list[DamageRecord]:
        """All that is on record, acknowledged or not, oldest first."""
        return [*self.ledger().records]

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Somebody knows of it; `NotFound` if it is not on record."""
        return self._caller.call(wire.ACKNOWLEDGE_DAMAGE, {"damage": record_id}).record
