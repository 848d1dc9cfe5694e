"""The record of lost data in a remote store: the remote form of `DamageLedger`."""

from __future__ import annotations

from lakebed.api import damage as wire
from lakebed.base.damage_ledger import DamageRecord, Ledger
from lakebed.client.caller import Caller


class RemoteDamage:
    """The record of lost data in a remote store. Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def ledger(self) -> Ledger:
        """Returns the whole record."""
        return self._caller.call(wire.LIST_DAMAGE)

    def list(self) -> list[DamageRecord]:
        """Lists all records of damage, acknowledged or not, oldest first."""
        return [*self.ledger().records]

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Marks a record as acknowledged, which ends its reports. `NotFound` if there is none."""
        return self._caller.call(wire.ACKNOWLEDGE_DAMAGE, {"damage": record_id}).record
