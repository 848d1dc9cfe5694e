"""The lease handler: hands messages to a client for a limited time.

A request that waits for a message holds no thread; see `lease_queue`. A client that has
disconnected gets no lease: the handler checks the connection before leasing, and gives messages
back if the client disconnects while they are being leased. A client that has closed its sending
side counts as disconnected, even if it still receives.

What may be lost: if the response is lost in the network, its messages stay leased until their
deadline.
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
    lease_request, request = await call.document(LeaseRequest), call.request
    group = await group_of(service, call)
    leased = await _leased(service, group, lease_request, request)
    if leased and request.is_gone:
        await _give_back(service, group, leased)
        raise ClientGone("the client closed the connection before it received the leased messages")
    if len(leased) > _HERE_MAX:
        return await service.run(lambda: _answer(leased, call))
    return _answer(leased, call)


_HERE_MAX = 200  # messages; more are encoded in another thread


async def _leased(
    service: Service, group: Group, lease_request: LeaseRequest, request: Request
) -> list[LeasedMessage]:
    """Leases messages, and waits for them up to the `wait_ms` of the request.

    Returns an empty list if no message arrives before the time-out, the client disconnects, or the
    server shuts down.
    """

    def try_lease() -> list[LeasedMessage]:
        return group.lease(
            max_messages=lease_request.max_messages,
            max_bytes=lease_request.max_bytes,
            lease_ms=lease_request.lease_ms,
        )

    if request.is_gone:
        return []
    if not lease_request.wait_ms:
        return await service.run(try_lease)
    until_s = asyncio.get_running_loop().time() + lease_request.wait_ms / 1000
    with service.lease_queues.place(group) as (queue, wake_event):
        request.on_hurry = wake_event.set_in_loop
        try:
            while True:
                try:
                    leased = await service.run(try_lease)
                except BaseException:
                    queue.wake_next()  # this waiter will not try again
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
    """Yields one `Lease`, as columns, for each sequence of messages that were leased together."""
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
