"""Handlers that return messages from an offset on: as columns, as JSON lines, or as stored records.

A request for messages that do not exist yet may wait for them. It holds no thread: a callback of
the partition wakes it. If the client disconnects or the server shuts down, the wait ends with an
empty result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lakebed.api import media
from lakebed.api.topics import FetchQuery, Messages, RawFetchQuery
from lakebed.base.errors import DataError, DiskError
from lakebed.base.units import KIB, MIB
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.lookup import readable_partition_of
from lakebed.http_api.message_lines import line_of
from lakebed.http_api.response_builder import response_of
from lakebed.http_api.service import Service
from lakebed.http_api.wake_event import WakeEvent
from lakebed.keratin.message import Message
from lakebed.keratin.partition import Partition
from lakebed.keratin.read_only import ReadOnlyPartition

ReadablePartition = Partition | ReadOnlyPartition

_WINDOW_BYTES_MIN = 64 * KIB
_WINDOW_BYTES_MAX = 2 * MIB


async def fetch(service: Service, call: Call) -> Response:
    partition, query = await readable_partition_of(service, call), call.query
    await _wait_for_offset(partition, query.offset, query.wait_ms, call)
    return await service.run(lambda: _fetched(partition, query, call))


async def fetch_raw(service: Service, call: Call) -> Response:
    partition, query = await readable_partition_of(service, call), call.query
    await _wait_for_offset(partition, query.offset, query.wait_ms, call)
    return await service.run(lambda: _fetched_raw(partition, query))


async def _wait_for_offset(
    partition: ReadablePartition, offset: int, wait_ms: int, call: Call
) -> None:
    """If `offset` is the end of the partition, waits until there is a message there.

    The wait ends early if `wait_ms` have passed, the client disconnects, or the server shuts down.
    """
    if not wait_ms or partition.high_watermark() != offset:
        return
    until_s = asyncio.get_running_loop().time() + wait_ms / 1000
    wake_event, request = WakeEvent(), call.request
    request.on_hurry = wake_event.set_in_loop
    stop = partition.on_durable(wake_event.set)
    try:
        # This call raises if the partition was closed meanwhile.
        while not partition.wait_beyond(offset, 0) and not request.is_hurried:
            if not await wake_event.wait(until_s):
                return
    finally:
        stop()
        request.on_hurry = None


def _fetched(partition: ReadablePartition, query: FetchQuery, call: Call) -> Response:
    # The end is taken first, so that all messages read are before it.
    high_watermark = partition.high_watermark()
    messages, next_offset = _read(partition, query, end=max(query.offset, high_watermark))
    start_offset = partition.start_offset()
    if call.accepts(media.LINES):
        headers = [
            ("Content-Type", media.LINES),
            ("Lakebed-Next-Offset", str(next_offset)),
            ("Lakebed-Start-Offset", str(start_offset)),
            ("Lakebed-High-Watermark", str(high_watermark)),
        ]
        lines = b"".join(line_of(partition.number, message) for message in messages)
        return Response(200, headers, lines)
    return response_of(
        Messages(
            partition=partition.number,
            offsets=[message.offset for message in messages],
            timestamps_ms=[message.timestamp_ms for message in messages],
            keys=[message.key for message in messages],
            values=[message.value for message in messages],
            headers=[list(message.headers) for message in messages],
            flags=[message.flags for message in messages],
            next_offset=next_offset,
            start_offset=start_offset,
            high_watermark=high_watermark,
        ),
        call,
    )


def _read(
    partition: ReadablePartition, query: FetchQuery, *, end: int
) -> tuple[list[Message], int]:
    """Returns messages up to the limits, but at least one if there is one, and the next offset to
    read.

    At a damaged message, returns the messages before it, or raises the error if there are none.
    """
    messages: list[Message] = []
    left_bytes = query.max_bytes
    try:
        for message in _messages(partition, query, end):
            left_bytes -= _size(message)
            if messages and left_bytes < 0:
                return messages, message.offset
            messages.append(message)
            if len(messages) == query.max_messages:
                return messages, message.offset + 1
    except (DataError, DiskError):
        if not messages:
            raise
        return messages, messages[-1].offset + 1
    return messages, end


def _messages(partition: ReadablePartition, query: FetchQuery, end: int) -> Iterator[Message]:
    window_bytes = min(max(query.max_bytes, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)
    for batch in partition.read_batches(query.offset, end, batch_bytes_max=window_bytes):
        yield from batch


def _size(message: Message) -> int:
    size = len(message.key or b"") + len(message.value or b"")
    for name, value in message.headers:
        size += len(name) + len(value or b"")
    return size


def _fetched_raw(partition: ReadablePartition, query: RawFetchQuery) -> Response:
    fetched = partition.fetch(query.offset, max_bytes=query.max_bytes)
    headers = [
        ("Content-Type", media.BYTES),
        ("Lakebed-Base-Offset", str(fetched.base_offset)),
        ("Lakebed-Next-Offset", str(fetched.next_offset)),
        ("Lakebed-Start-Offset", str(partition.start_offset())),
        ("Lakebed-High-Watermark", str(partition.high_watermark())),
    ]
    return Response(200, headers, fetched.data)
