"""All operations by name: those of clients, one module per engine, and those of operators, in
`tiers` and `upkeep`.
"""

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
