# Made by `python -m tools.asynced` of `src/lakebed/client/damage.py`: edit that.
"""What is on record as lost in a store that another process has open: as `DamageLedger`."""

from __future__ import annotations

from lakebed.aio.client.caller import Caller
from lakebed.api import damage as wire
from lakebed.base.damage_ledger import DamageRecord, Ledger


class AsyncDamage:
    """For one event loop."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def ledger(self) -> Ledger:
        """All that is on record."""
        return await self._caller.call(wire.LIST_DAMAGE)

    async def list(self) -> list[DamageRecord]:
        """All that is on record, acknowledged or not, oldest first."""
        return [*(await self.ledger()).records]

    async def acknowledge(self, record_id: int) -> DamageRecord:
        """Somebody knows of it; `NotFound` if it is not on record."""
        return (await self._caller.call(wire.ACKNOWLEDGE_DAMAGE, {"damage": record_id})).record
