"""Planned reads of any number of topics or logs, resolved, pinned and measured in one call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from lakebed.api.operation import Operation
from lakebed.api.plans import PLAN_LOGS, PLAN_TOPICS, PlannedReads, PlanReads
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service


async def plan_topics(service: Service, call: Call) -> PlannedReads:
    query = await call.document(PlanReads)
    plan = partial(service.store.plan_topics, duration_ms=query.duration_ms, owner=query.owner)
    return PlannedReads(await service.run(partial(plan, query.reads)))


async def plan_logs(service: Service, call: Call) -> PlannedReads:
    query = await call.document(PlanReads)
    plan = partial(service.store.plan_logs, duration_ms=query.duration_ms, owner=query.owner)
    return PlannedReads(await service.run(partial(plan, query.reads)))


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    PLAN_TOPICS: plan_topics,
    PLAN_LOGS: plan_logs,
}
