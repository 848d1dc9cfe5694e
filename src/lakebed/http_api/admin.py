"""How the store is, what it counts, its settings, and long work in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from lakebed.api import admin, media
from lakebed.api.admin import Configuration, CounterValues, Health, StoreState, WorkList, WorkState
from lakebed.api.operation import Operation
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.openapi import openapi_document
from lakebed.http_api.service import Service
from lakebed.version import VERSION


async def health(service: Service, _call: Call) -> Health:
    """Without a look at the store, and whoever asks: it tells that calls are taken."""
    return Health("draining" if service.is_draining else "ok", VERSION)


async def openapi(_service: Service, _call: Call) -> Response:
    return Response(200, [("Content-Type", media.JSON)], openapi_document())


async def state(service: Service, _call: Call) -> StoreState:
    store = service.store

    def look() -> StoreState:
        return StoreState(
            root=os.path.abspath(store.root),
            version=VERSION,
            store_version=store.version.version,
            process_id=os.getpid(),
            opened_ms=store.opened_ms,
            logs=store.logs(),
            topics=store.topic_names(),
            buckets=store.bucket_names(),
            free_bytes=store.disk.free_bytes(store.root),
            pins=len(store.pins.active()),
        )

    return await service.run(look)


async def counters(service: Service, _call: Call) -> CounterValues:
    found = await service.run(service.store.counters)
    return CounterValues({**found, "door": _own_counters(service)})


def _own_counters(service: Service) -> dict[str, dict[str, int | float]]:
    """By operation; and what is held now."""
    budget = service.budget
    now = {"requests": budget.requests, "body_bytes": budget.body_bytes}
    values: dict[str, dict[str, int | float]] = {"now": {**now}}
    for name, count in service.counters.snapshot().counters.items():
        operation, _, outcome = name.rpartition(".")
        values.setdefault(operation, {})[outcome] = count
    return values


async def configuration(service: Service, _call: Call) -> Configuration:
    return Configuration(service.store.configuration())


async def list_work(service: Service, _call: Call) -> WorkList:
    return WorkList(service.jobs.kinds(), service.jobs.list())


async def start_work(service: Service, call: Call) -> WorkState:
    asked = await call.document(admin.StartWork)
    return service.jobs.start(asked.kind, asked.arguments)


async def get_work(service: Service, call: Call) -> WorkState:
    """Waits for its end if that is asked for; but not for a client that is gone."""
    query: admin.WaitQuery = call.query
    request, work_id = call.request, call.names["work"]
    waiting = asyncio.ensure_future(service.jobs.ended(work_id).wait())

    def stop_waiting() -> None:
        waiting.cancel()

    request.on_hurry = stop_waiting
    if not request.is_hurried:
        await asyncio.wait([waiting], timeout=query.wait_ms / 1000)
    waiting.cancel()
    return service.jobs.get(work_id)


async def cancel_work(service: Service, call: Call) -> None:
    service.jobs.cancel(call.names["work"])


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    admin.HEALTH: health,
    admin.OPENAPI: openapi,
    admin.STATE: state,
    admin.COUNTERS: counters,
    admin.CONFIGURATION: configuration,
    admin.LIST_WORK: list_work,
    admin.START_WORK: start_work,
    admin.GET_WORK: get_work,
    admin.CANCEL_WORK: cancel_work,
}
