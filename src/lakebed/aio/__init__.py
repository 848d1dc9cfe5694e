"""Lakebed for asyncio programs.

import lakebed.aio

async with lakebed.aio.connect("data") as store:      # a store that another process has open
    topic = await store.topic("orders")
    await topic.append_batch([b"..."])
    async for message in await topic.partition(0).follow(): ...

record_id = await append_record_async(log, b"...")    # a log that this process has open
async for record in AsyncFollower(log): ...
"""

from lakebed.aio.client.store import AsyncStore
from lakebed.aio.log import AsyncFollower, append_record_async, flush_async

connect = AsyncStore.open

__all__ = ["AsyncFollower", "AsyncStore", "append_record_async", "connect", "flush_async"]
