"""The handlers of all operations: bound to their targets, or written by hand in a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Operation
from lakebed.api.operations import OPERATIONS
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
    records,
    segments,
    stored_objects,
    tailing,
    topics,
)
from lakebed.http_api.binder import bound
from lakebed.http_api.handler import Handler

__all__ = ["HANDLERS", "Handler"]

HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    **{operation: bound(operation) for operation in OPERATIONS if operation.target},
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
    **records.HANDLERS,
    **segments.HANDLERS,
    **stored_objects.HANDLERS,
    **tailing.HANDLERS,
    **topics.HANDLERS,
}
