"""The table of all calls of the HTTP API."""

from __future__ import annotations

from typing import Final

from lakebed.api import (
    access_keys,
    admin,
    damage,
    groups,
    logs,
    manifests,
    objects,
    pins,
    plans,
    stored_objects,
    topics,
)
from lakebed.api.operation import Operation

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    *topics.OPERATIONS,
    *groups.OPERATIONS,
    *logs.OPERATIONS,
    *pins.OPERATIONS,
    *plans.OPERATIONS,
    *manifests.OPERATIONS,
    *objects.OPERATIONS,
    *access_keys.OPERATIONS,
    *stored_objects.OPERATIONS,
    *damage.OPERATIONS,
    *admin.OPERATIONS,
)
