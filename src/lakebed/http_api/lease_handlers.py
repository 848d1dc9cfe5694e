"""Leasing over the wire: messages are held for a client.

Who waits for the first message holds no thread: see `lease_queue`. A client that is gone is handed
nothing: before a lease it is looked at whether it is there, and what was leased while it went is
given back. A client that sends no more counts as gone, whether or not it still listens.

What may be lost: a lease whose answer is lost on the way stands until its deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from lakebed.api import media
from lakebed.api.groups import Lease, LeaseRequest, Leases
from lakebed.base.errors import LakebedError
from lakebed.http.request import ClientGone, Request
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.lookup import group_of
from lakebed.http_api.message_lines import lease_line_of
from lakebed.http_api.response_builder import response_of
from lakebed.http_api.service import Service
from lakebed.store.group import Group
from lakebed.store.leased_message import LeasedMessage


async def lease(service: Service, call: Call) -> Response:
    asked, request = await call.document(LeaseRequest), call.request
    group = await group_of(service, call)
    leased = await _leased(service, group, asked, request)
    if leased and request.is_gone:
        await _give_back(service, group, leased)
        raise ClientGone("the client left before it was handed what it leased")
    if len(leased) > _HERE_MAX:
        return await service.run(lambda: _answer(leased, call))
    return _answer(leased, call)


_HERE_MAX = 200  # messages; more are written down in another thread


async def _leased(
    service: Service, group: Group, asked: LeaseRequest, request: Request
) -> list[LeasedMessage]:
    """Messages, or none when the time is over, the client gone, or the server about to end."""

    def look() -> list[LeasedMessage]:
        return group.lease(
            max_messages=asked.max_messages, max_bytes=asked.max_bytes, lease_ms=asked.lease_ms
        )

    if request.is_gone:
        return []
    if not asked.wait_ms:
        return await service.run(look)
    until_s = asyncio.get_running_loop().time() + asked.wait_ms / 1000
    with service.lease_queues.place(group) as (queue, wake_event):
        request.on_hurry = wake_event.set_in_loop
        try:
            while True:
                try:
                    leased = await service.run(look)
                except BaseException:
                    queue.wake_next()  # in vain for this one
                    raise
                if leased:
                    queue.wake_next()
                    return leased
                queue.set_timer()
                if request.is_hurried or not await wake_event.wait(until_s) or request.is_hurried:
                    return []
                queue.wait_again(wake_event)
        finally:
            request.on_hurry = None


async def _give_back(service: Service, group: Group, leased: Sequence[LeasedMessage]) -> None:
    def give_back() -> None:
        with contextlib.suppress(LakebedError):
            group.give_back(leased)

    await service.run(give_back)


def _answer(leased: Sequence[LeasedMessage], call: Call) -> Response:
    if call.accepts(media.LINES):
        lines = b"".join(map(lease_line_of, leased))
        return Response(200, [("Content-Type", media.LINES)], lines)
    return response_of(Leases(list(_leases(leased))), call)


def _leases(leased: Iterable[LeasedMessage]) -> Iterator[Lease]:
    """What was leased together, as columns; it comes in that order."""
    for (partition, epoch, deadline_ms, incarnation), together in groupby(leased, _lease_of):
        _, offsets, timestamps_ms, keys, values, headers, counts, *_ = zip(*together, strict=True)
        yield Lease(
            partition=partition,
            epoch=epoch,
            incarnation=incarnation,
            deadline_ms=deadline_ms,
            offsets=list(offsets),
            timestamps_ms=list(timestamps_ms),
            keys=list(keys),
            values=list(values),
            headers=list(map(list, headers)),
            delivery_counts=list(counts),
        )


def _lease_of(message: LeasedMessage) -> tuple[int, int, int, str]:
    return message.partition, message.epoch, message.deadline_ms, message.incarnation
