"""Handlers for health, the OpenAPI document, counters and jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from lakebed.api import admin, media
from lakebed.api.admin import CounterValues, Health, JobList, JobState
from lakebed.api.operation import Operation
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.openapi import openapi_document
from lakebed.http_api.service import Service
from lakebed.version import VERSION


async def health(service: Service, _call: Call) -> Health:
    """Reports whether the server is running (`ok`) or shutting down (`draining`).

    It does not access the store, and the caller needs no access key.
    """
    return Health("draining" if service.is_draining else "ok", VERSION)


async def openapi(_service: Service, _call: Call) -> Response:
    return Response(200, [("Content-Type", media.JSON)], openapi_document())


async def counters(service: Service, _call: Call) -> CounterValues:
    values = await service.run(service.store.counters)
    return CounterValues({**values, "door": _own_counters(service)})


def _own_counters(service: Service) -> dict[str, dict[str, int | float]]:
    """Returns the API's own counters by operation, and the current usage under `now`."""
    budget = service.budget
    now = {"requests": budget.requests, "body_bytes": budget.body_bytes}
    values: dict[str, dict[str, int | float]] = {"now": {**now}}
    for name, count in service.counters.snapshot().counters.items():
        operation, _, outcome = name.rpartition(".")
        values.setdefault(operation, {})[outcome] = count
    return values


async def list_work(service: Service, _call: Call) -> JobList:
    return JobList(service.jobs.kinds(), service.jobs.list())


async def start_work(service: Service, call: Call) -> JobState:
    document = await call.document(admin.StartJob)
    return service.jobs.start(document.kind, document.arguments)


async def get_work(service: Service, call: Call) -> JobState:
    """Returns the state of a job, after waiting up to `wait_ms` for the job to end.

    The wait ends early if the client disconnects or the server shuts down.
    """
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
    admin.COUNTERS: counters,
    admin.LIST_WORK: list_work,
    admin.START_WORK: start_work,
    admin.GET_WORK: get_work,
    admin.CANCEL_WORK: cancel_work,
}
