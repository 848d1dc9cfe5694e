"""The handlers of all operations: bound to their targets, or written by hand in a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Operation
from lakebed.api.operations import OPERATIONS
from lakebed.http_api import (
    admin,
    commits,
    groups,
    logs,
    manifests,
    objects,
    records,
    segments,
    tailing,
    topics,
)
from lakebed.http_api.binder import bound
from lakebed.http_api.handler import Handler

__all__ = ["HANDLERS", "Handler"]

HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    **{operation: bound(operation) for operation in OPERATIONS if operation.target},
    **admin.HANDLERS,
    **commits.HANDLERS,
    **groups.HANDLERS,
    **logs.HANDLERS,
    **manifests.HANDLERS,
    **objects.HANDLERS,
    **records.HANDLERS,
    **segments.HANDLERS,
    **tailing.HANDLERS,
    **topics.HANDLERS,
}
