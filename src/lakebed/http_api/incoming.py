"""The body of a large object on its way in: received, and handed to the store in pieces.

While one piece is hashed and written in another thread, the next one is received: so at most two
are in memory, whatever the object's size. A body that breaks off is given up, and nothing of it is
stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from lakebed.http.receiving import Reception, Sent, gathered
from lakebed.http.request import RequestBody
from lakebed.http_api.service import Service
from lakebed.seglake.commits import Change
from lakebed.seglake.objects import Put

Result = TypeVar("Result")


async def pumped(
    service: Service, body: RequestBody, put: Put[Result], reception: Reception
) -> Change[Result]:
    """All of the body; what is left is to commit it. Its giver gives up what is not ended."""
    at_work: asyncio.Future[None] | None = None
    try:
        async for pieces in gathered(body, reception):
            if at_work is not None:
                await at_work
            at_work = asyncio.ensure_future(service.run(partial(_write, put, pieces)))
        if at_work is not None:
            await at_work
        return await service.run(put.change)
    finally:
        if at_work is not None:
            await asyncio.wait([at_work])  # nobody is at it when it is given up
            if not at_work.cancelled():
                at_work.exception()  # looked at, for another one may be told


def _write(put: Put[Result], pieces: Sequence[Sent]) -> None:
    for piece in pieces:
        put.write(piece)
