"""An app with handlers of a test's own, in the loop of the test, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lakebed.api.operation import Operation
from lakebed.door.app import App
from lakebed.door.guard import Guard
from lakebed.door.handler import Handler
from lakebed.door.limits import DoorLimits
from lakebed.door.service import Service
from lakebed.http.limits import Limits
from lakebed.store.store import Store
from tests.http.serving import Serving, serving


class Handling(NamedTuple):
    served: Serving
    service: Service


@asynccontextmanager
async def handling(
    root: Path,
    handlers: Mapping[Operation[Any], Handler],
    *,
    guard: Guard | None = None,
    limits: Limits | None = None,
    door_limits: DoorLimits | None = None,
) -> AsyncIterator[Handling]:
    """The clock of its timers stands still."""
    with Store.open(root, serves=False) as store, ThreadPoolExecutor(4) as executor:
        service = Service(store, executor, limits=door_limits)
        app = App(service, guard=guard, handlers=handlers)
        async with serving(app, limits=limits, on_refusal=app.refusal) as served:
            yield Handling(served, service)
