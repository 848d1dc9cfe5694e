"""Planned reads of any number of topics or logs, resolved, pinned and measured in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from lakebed.aof.log import Aof
from lakebed.aof.manifest.paths import stream_name
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.api.operation import Operation
from lakebed.api.planner import Readable, ReadableLog, ReadableTopic, plan_reads
from lakebed.api.plans import PLAN_LOGS, PLAN_TOPICS, PlannedReads, PlanReads
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.logs import existing_log
from lakebed.http_api.service import Service
from lakebed.store.store import Store


async def plan_topics(service: Service, call: Call) -> PlannedReads:
    return await _planned(service, call, _topic)


async def plan_logs(service: Service, call: Call) -> PlannedReads:
    return await _planned(service, call, _log)


async def _planned(
    service: Service, call: Call, opening: Callable[[Store, str], Readable]
) -> PlannedReads:
    query = await call.document(PlanReads)
    return await service.run(partial(_plan, service.store, query, opening))


def _plan(
    store: Store, query: PlanReads, opening: Callable[[Store, str], Readable]
) -> PlannedReads:
    opened = {name: opening(store, name) for name in {read.name for read in query.reads}}
    wanted = [(opened[read.name], read) for read in query.reads]
    return PlannedReads(
        plan_reads(wanted, pins=store.pins, duration_ms=query.duration_ms, owner=query.owner)
    )


def _topic(store: Store, name: str) -> ReadableTopic:
    topic = store.topics.open_to_read(name)
    return ReadableTopic(name, topic.identity.topic_id, topic.partitions)


def _log(store: Store, name: str) -> ReadableLog:
    log = existing_log(store, name)
    return ReadableLog(name, stream_name(log.stream_id), partial(_look, log), log.seek_timestamp)


def _look(log: Aof) -> tuple[Sequence[SegmentInfo], RecordId]:
    durable_end = log.durable_end()  # first: the segments listed after it contain it
    return log.segments(), durable_end


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    PLAN_TOPICS: plan_topics,
    PLAN_LOGS: plan_logs,
}
