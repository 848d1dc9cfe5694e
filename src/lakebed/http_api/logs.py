"""Handlers that open and seal logs and set their watermark, and the lookup of the log of a call.

Only `open_log` creates a log; for all other calls, an unknown name is an error. Requests that wait
for records of the same log share its flushes.
"""

from __future__ import annotations

import asyncio
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
from lakebed.base.errors import DiskError, InputError, LakebedError, NoSpace, NotFound
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service

U64_MAX: Final = (1 << 64) - 1

_MS_PER_S: Final = 1000


class Flushes:
    """Flushes one log for all requests that wait for its records, at most once at a time.

    Requests that arrive during a flush share the next flush. So durable appends to a log use one
    thread, however many clients append, and one sync wakes all requests whose records it made
    durable. Use it only in the event loop's thread.
    """

    def __init__(self, log: Aof) -> None:
        self._log = log
        self._under_way: asyncio.Future[None] | None = None

    async def until_durable(self, service: Service, last: RecordId) -> None:
        """Waits until the record `last` is durable. Raises the error of a flush that fails."""
        is_covered = False  # whether the awaited flush began after the append
        while self._log.durable_end() <= last:
            if self._under_way is None:
                self._begin(service)
                is_covered = True
            assert self._under_way is not None
            try:
                await asyncio.shield(self._under_way)
            except LakebedError:
                if is_covered:
                    raise
            is_covered = True

    def _begin(self, service: Service) -> None:
        self._under_way = asyncio.ensure_future(service.run(self._log.flush))
        self._under_way.add_done_callback(self._ended)

    def _ended(self, done: asyncio.Future[None]) -> None:
        self._under_way = None
        if not done.cancelled():
            done.exception()  # mark as retrieved: all waiters may be gone


class OpenLog:
    """An open log, and the state that its requests share. Used in the event loop's thread."""

    def __init__(self, log: Aof) -> None:
        self.log = log
        self.flushes = Flushes(log)


_opened: Final[WeakKeyDictionary[Service, dict[str, OpenLog]]] = WeakKeyDictionary()


async def find_log(service: Service, call: Call) -> OpenLog:
    """Returns the log that a call names. Raises `NotFound` if it does not exist."""
    return await _get(service, call.names["log"], service.store.open_log)


async def find_log_to_read(service: Service, call: Call) -> Aof | ReadOnlyLog:
    """Returns the log that a call names, for reading. Raises `NotFound` if it does not exist.

    This also works while the disk accepts no writes.
    """
    store, name = service.store, call.names["log"]
    opened = _opened.setdefault(service, {}).get(name)
    if opened is not None and not opened.log.is_closed:
        return opened.log
    return await service.run(partial(store.open_log_to_read, name))


async def _get(service: Service, name: str, opening: Callable[[str], Aof]) -> OpenLog:
    """Returns the log if it is open. Otherwise opens it with `opening`."""
    logs_by_name = _opened.setdefault(service, {})
    opened = logs_by_name.get(name)
    if opened is None or opened.log.is_closed:
        log = await service.run(partial(opening, name))
        opened = logs_by_name.get(name)
        if opened is None or opened.log is not log:
            opened = logs_by_name[name] = OpenLog(log)
    return opened


def seconds_of(timeout_ms: int | None) -> float:
    """Converts the time-out of a call to seconds. None, or more than `WAIT_MS_MAX`, counts as that
    maximum."""
    bounded_ms = WAIT_MS_MAX if timeout_ms is None else min(timeout_ms, WAIT_MS_MAX)
    return bounded_ms / _MS_PER_S


def position_of(number: int) -> RecordId:
    """Converts the packed 64-bit number of a request to a record id."""
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
    """Describes a log that can be read, although it cannot be opened for writing.

    Returns None if the log does not exist, or its creation was not finished.
    """
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
        raise InputError(f"the watermark {watermark} does not fit into 64 bits")
    log.set_coordinator_watermark(watermark)
    return log.describe()


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.OPEN_LOG: open_log,
    logs.SEAL_LOG: seal_log,
    logs.SET_WATERMARK: set_watermark,
}
