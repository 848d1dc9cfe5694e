"""The damage ledger of a remote store, which records lost data: the remote form of
`DamageLedger`."""

from __future__ import annotations

from lakebed.api import damage as wire
from lakebed.base.damage_ledger import DamageRecord, Ledger
from lakebed.client.caller import Caller


class RemoteDamage:
    """The damage ledger of a remote store, which records losses of data. Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def ledger(self) -> Ledger:
        """Returns the whole ledger: all records, and the number of losses for which it had no
        space."""
        return self._caller.call(wire.LIST_DAMAGE)

    def list(self) -> list[DamageRecord]:
        """Lists all damage records, acknowledged or not, oldest first."""
        return [*self.ledger().records]

    def acknowledge(self, record_id: int) -> DamageRecord:
        """Marks a damage record as acknowledged: `verify` then no longer reports it, and readers of
        a topic skip its lost messages. Returns the record. Raises `NotFound` if there is no record
        with that id."""
        return self._caller.call(wire.ACKNOWLEDGE_DAMAGE, {"damage": record_id}).record
