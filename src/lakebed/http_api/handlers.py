"""The handlers of all families, by operation.

A family adds its import, and its `HANDLERS` to the table below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Operation
from lakebed.http_api import (
    admin,
    buckets,
    commits,
    damage,
    groups,
    keys,
    logs,
    manifests,
    objects,
    pins,
    plans,
    records,
    segments,
    stored_objects,
    tailing,
    topics,
)
from lakebed.http_api.handler import Handler

__all__ = ["HANDLERS", "Handler"]

HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    **admin.HANDLERS,
    **buckets.HANDLERS,
    **commits.HANDLERS,
    **damage.HANDLERS,
    **groups.HANDLERS,
    **keys.HANDLERS,
    **logs.HANDLERS,
    **manifests.HANDLERS,
    **objects.HANDLERS,
    **pins.HANDLERS,
    **plans.HANDLERS,
    **records.HANDLERS,
    **segments.HANDLERS,
    **stored_objects.HANDLERS,
    **tailing.HANDLERS,
    **topics.HANDLERS,
}
