"""Logs of this process for programs with an event loop.

from lakebed.aio import AsyncFollower, append_record_async, flush_async

record_id = await append_record_async(log, b"...")
async for record in AsyncFollower(log): ...
"""

from lakebed.aio.log import AsyncFollower, append_record_async, flush_async

__all__ = ["AsyncFollower", "append_record_async", "flush_async"]
