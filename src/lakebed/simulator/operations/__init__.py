"""All operations of simulated clients by name; one module per engine."""

from __future__ import annotations

from typing import Final

from lakebed.simulator.context import Operation
from lakebed.simulator.operations import groups, logs, objects, tiers, topics, upkeep

OPERATIONS: Final[dict[str, Operation]] = {
    operation.name: operation
    for operation in (
        *logs.OPERATIONS,
        *topics.OPERATIONS,
        *groups.OPERATIONS,
        *objects.OPERATIONS,
        *tiers.OPERATIONS,
        *upkeep.OPERATIONS,
    )
}
