"""Logs, as wholes: opened, listed, described, sealed; where their segments are; their watermark.

A log is created by `open_log` alone: whoever misspells a name is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from lakebed.aof.log import Aof
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogDescription
from lakebed.api import logs
from lakebed.api.operation import Operation
from lakebed.api.topics import WAIT_MS_MAX
from lakebed.base.errors import DiskError, InputError, NoSpace, NotFound
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


async def find_log_to_read(service: Service, call: Call) -> Aof | ReadOnlyLog:
    """For a call that only reads: it is also answered while the disk takes no writes."""
    store, name = service.store, call.names["log"]
    known = _opened.setdefault(service, {}).get(name)
    if known is not None and not known.log.is_closed:
        return known.log
    return await service.run(partial(store.open_log_to_read, name))


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


async def open_log(service: Service, call: Call) -> LogDescription:
    try:
        return (await _get(service, call.names["log"], service.store.log)).log.describe()
    except (NoSpace, DiskError):
        description = await _description(service, call)
        if description is None:
            raise
        return description


async def _description(service: Service, call: Call) -> LogDescription | None:
    """Of a log that can be read; None if there is none, or its creation failed halfway."""
    try:
        log = await find_log_to_read(service, call)
    except NotFound:
        return None
    description = await service.run(log.describe)
    return description if description.stream_id or description.segments else None


async def seal_log(service: Service, call: Call) -> logs.SealedSegment:
    log = (await find_log(service, call)).log
    timeout_s = seconds_of((await call.document(logs.Seal)).timeout_ms)
    info = await service.run(partial(log.seal_current_segment, timeout=timeout_s))
    return logs.SealedSegment(info)


async def set_watermark(service: Service, call: Call) -> LogDescription:
    log = (await find_log(service, call)).log
    watermark = (await call.document(logs.WatermarkBody)).watermark
    if watermark > U64_MAX:
        raise InputError(f"a watermark has 64 bits: {watermark} does not fit")
    log.set_coordinator_watermark(watermark)
    return log.describe()


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.OPEN_LOG: open_log,
    logs.SEAL_LOG: seal_log,
    logs.SET_WATERMARK: set_watermark,
}
