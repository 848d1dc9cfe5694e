"""The tail handler: streams a log's records as JSON lines as they become durable, until the client
disconnects or the server shuts down.

One batch is in memory at a time; the client must receive it before the next one is read. Retention
keeps the segments that were not yet sent to a connected client. If reading fails later, for example
because the log is closed, the last line is `{"problem": …}`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

from lakebed.aof.follower import Follower
from lakebed.aof.record_id import RecordId
from lakebed.aof.view import LogView
from lakebed.api import logs, media
from lakebed.api.operation import Operation
from lakebed.api.problems import problem_of
from lakebed.base.errors import LakebedError
from lakebed.http.request import Request
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.log_changes import LogChanges
from lakebed.http_api.logs import find_log_to_read
from lakebed.http_api.record_lines import lines_of
from lakebed.http_api.service import Service


async def tail_log(service: Service, call: Call) -> Response:
    log = await find_log_to_read(service, call)
    start_text = call.query.start
    start = log.durable_end() if start_text is None else RecordId.parse(start_text)
    follower = log.follow(start)
    body = _Tail(service, call.request, log, follower)
    try:
        await body.begin()
    except BaseException:
        follower.close()
        raise
    return Response(200, [("Content-Type", media.LINES)], body, closes=True)


class _Tail:
    """The response body of the tail handler. It must be closed, even if it was never read."""

    def __init__(
        self, service: Service, request: Request, log: LogView, follower: Follower
    ) -> None:
        self._service = service
        self._request = request
        self._log = log
        self._follower = follower
        self._first: bytes | None = None
        self._later_lines = self._lines()

    async def begin(self) -> None:
        """Reads the first batch, so that an error at the start becomes an error response."""
        self._first = await self._take()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._later_lines

    async def aclose(self) -> None:
        await self._later_lines.aclose()
        self._follower.close()

    async def _lines(self) -> AsyncGenerator[bytes, None]:
        with LogChanges(self._log, self._request) as changes:
            lines, self._first = self._first, None
            while not self._request.is_hurried:
                if lines:
                    yield lines
                changes.arm()
                try:
                    lines = await self._take()
                except LakebedError as error:
                    self._service.failures.note_in_body([error], self._request)
                    yield _last_line(error, self._request)
                    return
                if lines is None and not await changes.come():
                    return

    async def _take(self) -> bytes | None:
        """Returns the lines of the next batch; None if there is no new record yet."""
        return await self._service.run(partial(_lines, self._follower))


def _lines(follower: Follower) -> bytes | None:
    batch = follower.next_batch(0)
    if batch is None:
        return None
    records = logs.Records(
        record_ids=list(map(int, batch.record_ids())),
        timestamps=list(batch.timestamps),
        ext_ids=list(batch.ext_ids),
        payloads=[bytes(payload) for payload in batch.payloads()],
        next=int(batch.end),
        durable_end=int(batch.end),
    )
    return lines_of(records)


def _last_line(error: LakebedError, request: Request) -> bytes:
    return media.encode({"problem": problem_of(error, request_id=request.id)}, media.JSON) + b"\n"


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {logs.TAIL_LOG: tail_log}
