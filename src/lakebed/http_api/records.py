"""Handlers that append, flush and read records.

A batch is checked as a whole before its first record is appended, so an invalid request changes
nothing. If the log would block part-way through a batch, `WouldBlock` has the ids of the records
that were appended. Appended records that cannot be written because the disk is full stay queued,
and become durable when there is space. A durable append waits for that; if it takes too long, the
append raises `NotDurableYet`, with the ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from lakebed.aof.errors import AWAITED, NotDurableYet, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.aof.segment import fits_empty_segment, payload_bytes_max
from lakebed.api import logs, media
from lakebed.api.operation import Operation, Raw
from lakebed.api.problems import Refused
from lakebed.base.errors import InputError, RetryError, TooLarge
from lakebed.base.units import KIB
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.log_changes import LogChanges
from lakebed.http_api.logs import (
    U64_MAX,
    OpenLog,
    find_log,
    find_log_to_read,
    position_of,
    seconds_of,
)
from lakebed.http_api.record_lines import lines_of, payloads_of
from lakebed.http_api.record_pages import (
    Page,
    PageRequest,
    ReadLog,
    empty_page_at_end,
    page_backward,
    page_forward,
)
from lakebed.http_api.response_builder import response_of
from lakebed.http_api.service import Service

AT_ONCE_BYTES_MAX: Final = 256 * KIB  # larger batches are appended in another thread
ROOM_WAIT_S: Final = 10.0  # for space on the disk, unless the call has a time-out

_MS_PER_S: Final = 1000


class _Batch:
    """Records to append, and the ids of those that were appended."""

    def __init__(self, document: logs.AppendRecords) -> None:
        self._document = document
        self.record_ids: list[int] = []

    def append(self, log: Aof) -> None:
        """Appends the remaining records without waiting. Raises `WouldBlock` if the log does not
        accept all of them now."""
        document, done = self._document, len(self.record_ids)
        try:
            ids = log.append_records(
                document.payloads[done:],
                ext_ids=0 if document.ext_ids is None else document.ext_ids[done:],
                timestamps=None if document.timestamps is None else document.timestamps[done:],
            )
        except WouldBlock as error:
            self.record_ids += map(int, error.record_ids)
            raise
        self.record_ids += map(int, ids)


async def append_records(service: Service, call: Call) -> logs.RecordIds:
    opened = await find_log(service, call)
    document = await _read_append(call)
    is_small = sum(map(len, document.payloads)) + len(document.payloads) <= AT_ONCE_BYTES_MAX

    async def run(work: Callable[[], None]) -> None:
        if is_small:
            work()
        else:
            await service.run(work)

    await run(partial(_check, document, segment_bytes=service.store.config.segment_bytes))
    if not document.payloads:
        return logs.RecordIds([])
    batch = _Batch(document)
    try:
        with LogChanges(opened.log, call.request) as changes:
            append = partial(run, partial(batch.append, opened.log))
            await _append_all(append, changes, seconds_of(document.timeout_ms))
    except WouldBlock as error:
        error.record_ids = [RecordId(number) for number in batch.record_ids]
        raise
    if document.is_durable:
        await _until_durable(
            service, call, opened, batch, timeout_s=_durable_s(document.timeout_ms)
        )
    return logs.RecordIds(batch.record_ids)


def _durable_s(timeout_ms: int) -> float:
    """Returns how many seconds an append waits for its records to become durable if the disk is
    full.

    That is `timeout_ms`, but at most 60 s, or `ROOM_WAIT_S` if `timeout_ms` is 0.
    """
    return seconds_of(timeout_ms) if timeout_ms else ROOM_WAIT_S


async def _until_durable(
    service: Service, call: Call, opened: OpenLog, batch: _Batch, *, timeout_s: float
) -> None:
    """Flushes the log until the batch is durable.

    If the flush fails with a `RetryError`, for example because the disk is full, the log retries it
    later. This then waits up to `timeout_s` seconds, and raises `NotDurableYet` if they pass, or if
    the log is closed, the client disconnects or the server shuts down first. Other errors of a
    flush are raised.
    """
    log, last = opened.log, RecordId(batch.record_ids[-1])
    try:
        return await opened.flushes.until_durable(service, last)
    except RetryError as error:
        cause = error
    with LogChanges(log, call.request) as changes:
        deadline_s = changes.deadline_s(timeout_s)
        while True:
            changes.arm()
            if log.durable_end() > last:
                return None
            if log.failure is not None:
                raise log.failure
            # The log retries by itself, and signals a change.
            if log.is_closed or not await changes.come(deadline_s):
                ids = [RecordId(number) for number in batch.record_ids]
                text = f"{log.name}: the records up to {last} are queued but not durable: {cause}"
                raise NotDurableYet(text, record_ids=ids)


async def _append_all(
    append: Callable[[], Awaitable[None]], changes: LogChanges, timeout_s: float
) -> None:
    """Calls `append`, and again after each change of the log, until it succeeds.

    Raises the last `WouldBlock` if `timeout_s` pass first, the client disconnects, the server shuts
    down, or waiting does not help.
    """
    deadline_s = changes.deadline_s(timeout_s)
    while True:
        changes.arm()
        try:
            await append()
        except WouldBlock as error:
            is_awaited = error.kind in AWAITED and timeout_s > 0
            if not is_awaited or not await changes.come(deadline_s):
                raise
        else:
            return


async def _read_append(call: Call) -> logs.AppendRecords:
    raw = call.raw
    if raw is None:
        if call.request.raw_query:
            raise Refused(
                "query parameters cannot be combined with a JSON or MessagePack body; set its "
                "fields instead"
            )
        return await call.document(logs.AppendRecords)
    query: logs.AppendQuery = call.query
    payloads = [await call.read()] if raw is Raw.BYTES else await call.read_as(payloads_of)
    return logs.AppendRecords(
        payloads,
        ext_ids=[query.ext_id] * len(payloads) if query.ext_id else None,
        timestamps=None if query.timestamp is None else [query.timestamp] * len(payloads),
        is_durable=query.is_durable,
        timeout_ms=query.timeout_ms,
    )


def _check(document: logs.AppendRecords, *, segment_bytes: int) -> None:
    """Raises `InputError` if a record or its numbers are not valid, so that nothing is appended."""
    count = len(document.payloads)
    for index, payload in enumerate(document.payloads):
        if not payload:
            raise InputError(f"record {index} is empty: a record must have at least one byte")
        if not fits_empty_segment(len(payload), segment_bytes):
            limit = payload_bytes_max(segment_bytes)
            what = f"the size of the payload of record {index} in bytes"
            raise TooLarge(what, size=len(payload), limit=limit)
    for name, numbers in (("ext_ids", document.ext_ids), ("timestamps", document.timestamps)):
        if numbers is None:
            continue
        if len(numbers) != count:
            raise InputError(f"{name} has {len(numbers)} items for {count} records")
        if numbers and not 0 <= min(numbers) <= max(numbers) <= U64_MAX:
            raise InputError(f"{name} has a number that is not from 0 to 2**64 - 1")


async def flush_log(service: Service, call: Call) -> None:
    opened = await find_log(service, call)
    document = await call.document(logs.Flush)
    record_id = None if document.record_id is None else position_of(document.record_id)
    if record_id is not None and record_id < opened.log.durable_end():
        return
    timeout_s = seconds_of(document.timeout_ms)
    await service.run(partial(opened.log.flush, record_id, timeout=timeout_s))


async def read_records(service: Service, call: Call) -> Response:
    log = await find_log_to_read(service, call)
    page_request = _page_request(call)
    if call.query.backward:
        return await service.run(lambda: _response(call, page_backward(log, page_request)))
    return await _read_forward(service, call, log, page_request)


async def _read_forward(
    service: Service, call: Call, log: ReadLog, page_request: PageRequest
) -> Response:
    def work() -> Page | Response:
        page = page_forward(log, page_request)
        return _response(call, page) if page.records.record_ids else page

    with LogChanges(log, call.request) as changes:
        deadline_s = changes.deadline_s(call.query.wait_ms / _MS_PER_S)
        while True:
            changes.arm()
            page: Page | Response | None = empty_page_at_end(log, page_request)
            if page is None:
                page = await service.run(work)
            if isinstance(page, Response):
                return page
            may_wait = call.query.wait_ms and not page.is_at_end
            if not may_wait or not await changes.come(deadline_s):
                return _response(call, page)
            log.wait_beyond(RecordId(page.records.durable_end), 0)  # may raise `Closed`


def _page_request(call: Call) -> PageRequest:
    query: logs.ReadQuery = call.query
    if query.backward and query.end is not None:
        raise Refused("the query parameters `end` and `backward` cannot be combined")
    return PageRequest(
        start=None if query.start is None else RecordId.parse(query.start),
        end=None if query.end is None else RecordId.parse(query.end),
        max_records=query.max_records,
        max_bytes=query.max_bytes,
    )


def _response(call: Call, page: Page) -> Response:
    """Encodes a page. That is slow for a page with records, so call it in another thread then."""
    records = page.records
    if not call.accepts(media.LINES):
        return response_of(records, call)
    headers = [
        ("Content-Type", media.LINES),
        ("Lakebed-Next", str(RecordId(records.next))),
        ("Lakebed-Durable-End", str(RecordId(records.durable_end))),
    ]
    return Response(200, headers, lines_of(records))


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    logs.APPEND_RECORDS: append_records,
    logs.FLUSH_LOG: flush_log,
    logs.READ_RECORDS: read_records,
}
