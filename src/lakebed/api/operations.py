"""All calls, in one table."""

from __future__ import annotations

from typing import Final

from lakebed.api import admin, groups, logs, objects, topics
from lakebed.api.operation import Operation

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    *topics.OPERATIONS,
    *groups.OPERATIONS,
    *logs.OPERATIONS,
    *objects.OPERATIONS,
    *admin.OPERATIONS,
)
