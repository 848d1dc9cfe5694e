"""An app with handlers of a test's own, in the loop of the test, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lakebed.api.operation import Operation
from lakebed.http.limits import Limits
from lakebed.http_api.app import App
from lakebed.http_api.guard import Guard
from lakebed.http_api.handler import Handler
from lakebed.http_api.limits import ApiLimits
from lakebed.http_api.service import Service
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
    api_limits: ApiLimits | None = None,
    **settings: Any,
) -> AsyncIterator[Handling]:
    """The clock of its timers stands still; `settings` are the store's."""
    with Store.open(root, **settings) as store, ThreadPoolExecutor(4) as executor:
        service = Service(store, executor, limits=api_limits)
        app = App(service, guard=guard, handlers=handlers)
        async with serving(app, limits=limits, on_refusal=app.refusal) as served:
            yield Handling(served, service)
