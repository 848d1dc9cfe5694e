"""The table of the handlers of all operations: those that `binder` makes, and those written by
hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakebed.api.operation import Operation
from lakebed.api.operation_table import OPERATIONS
from lakebed.http_api import (
    admin,
    commit_handlers,
    groups,
    log_tail,
    logs,
    manifests,
    objects,
    records,
    segments,
    topics,
)
from lakebed.http_api.binder import bound
from lakebed.http_api.handler import Handler

__all__ = ["HANDLERS", "Handler"]

HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    **{operation: bound(operation) for operation in OPERATIONS if operation.target},
    **admin.HANDLERS,
    **commit_handlers.HANDLERS,
    **groups.HANDLERS,
    **logs.HANDLERS,
    **manifests.HANDLERS,
    **objects.HANDLERS,
    **records.HANDLERS,
    **segments.HANDLERS,
    **log_tail.HANDLERS,
    **topics.HANDLERS,
}
