"""Logs, as wholes: opened, listed, described, sealed; where their segments are; their watermark.

A log is created by `open_log` alone: whoever misspells a name is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import SegmentInfo
from lakebed.api import logs
from lakebed.api.operation import Operation
from lakebed.api.topics import WAIT_MS_MAX
from lakebed.base.errors import InputError
from lakebed.http_api.call import Call
from lakebed.http_api.flushes import Flushes
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service

U64_MAX: Final = (1 << 64) - 1

_MS_PER_S: Final = 1000


class OpenLog:
    """A log that somebody asked for, and what its callers share. In the loop's thread."""

    def __init__(self, log: Aof) -> None:
        self.log = log
        self.flushes = Flushes(log)


_opened: Final[WeakKeyDictionary[Service, dict[str, OpenLog]]] = WeakKeyDictionary()


async def find_log(service: Service, call: Call) -> OpenLog:
    """The log that is called upon; `NotFound` if there is none, and none is created."""
    return await _get(service, call.names["log"], service.store.open_log)


async def _get(service: Service, name: str, opening: Callable[[str], Aof]) -> OpenLog:
    """A log is looked for once, and again after it was closed."""
    known = _opened.setdefault(service, {})
    found = known.get(name)
    if found is None or found.log.is_closed:
        log = await service.run(partial(opening, name))
        found = known.get(name)
        if found is None or found.log is not log:
            found = known[name] = OpenLog(log)
    return found


def seconds_of(timeout_ms: int | None) -> float:
    """How long a call waits that says so; never longer than any call may."""
    bounded_ms = WAIT_MS_MAX if timeout_ms is None else min(timeout_ms, WAIT_MS_MAX)
    return bounded_ms / _MS_PER_S


def position_of(number: int) -> RecordId:
    """A record id as documents have it."""
    return RecordId.parse(str(number))


def state_of(log: Aof) -> logs.LogState:
    return logs.LogState(
        name=log.name,
        stream_id=log.stream_id,
        durable_end=int(log.durable_end()),
        coordinator_watermark=log.coordinator_watermark,
        segments=len(log.segments()),
    )


async def list_logs(service: Service, _call: Call) -> logs.LogNames:
    return logs.LogNames(await service.run(service.store.logs))


async def open_log(service: Service, call: Call) -> logs.LogState:
    return state_of((await _get(service, call.names["log"], service.store.log)).log)


async def describe_log(service: Service, call: Call) -> logs.LogState:
    return state_of((await find_log(service, call)).log)


async def seek_log(service: Service, call: Call) -> logs.Position:
    log = (await find_log(service, call)).log
    found = await service.run(partial(log.seek_timestamp, call.query.timestamp_ns))
    return logs.Position(int(found))


async def seal_log(service: Service, call: Call) -> logs.SealedSegment:
    log = (await find_log(service, call)).log
    timeout_s = seconds_of((await call.document(logs.Seal)).timeout_ms)
    info = await service.run(partial(log.seal_current_segment, timeout=timeout_s))
    return logs.SealedSegment(None if info is None else segment_of(info))


async def set_watermark(service: Service, call: Call) -> logs.LogState:
    log = (await find_log(service, call)).log
    watermark = (await call.document(logs.WatermarkBody)).watermark
    if watermark > U64_MAX:
        raise InputError(f"a watermark has 64 bits: {watermark} does not fit")
    log.set_coordinator_watermark(watermark)
    return state_of(log)


async def log_tiers(service: Service, call: Call) -> logs.TierPlaces:
    log = (await find_log(service, call)).log
    found = await service.run(log.tiers.residency)
    return logs.TierPlaces(
        [
            logs.TierPlace(
                segment_id=one.segment_id,
                tiers=list(one.tiers),
                is_sealed=one.is_sealed,
                durable_bytes=one.durable_bytes,
                compressed_bytes=one.compressed_bytes,
                key=one.key,
                pending=list(one.pending),
                failures=list(one.failures),
                needs_repair=one.needs_repair,
            )
            for one in found
        ]
    )


def segment_of(info: SegmentInfo, *, size: int | None = None) -> logs.LogSegment:
    return logs.LogSegment(
        segment_id=info.segment_id,
        base_offset=info.base_offset,
        created_at=info.created_at,
        is_sealed=info.is_sealed,
        tier=info.tier,
        end=info.end,
        path=info.path,
        size=size,
    )


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.LIST_LOGS: list_logs,
    logs.OPEN_LOG: open_log,
    logs.DESCRIBE_LOG: describe_log,
    logs.SEEK_LOG: seek_log,
    logs.SEAL_LOG: seal_log,
    logs.SET_WATERMARK: set_watermark,
    logs.LOG_TIERS: log_tiers,
}
