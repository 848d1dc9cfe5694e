"""Clients that wait for an answer while the test goes on, and what the API knows of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from lakebed.api import media
from lakebed.api.operation import Operation
from tests.http_api.live_api import GIVE_UP_S, LiveApi, target_of

Result = TypeVar("Result")


@contextlib.contextmanager
def another_client(live_api: LiveApi) -> Iterator[LiveApi]:
    """With a connection of its own."""
    client = LiveApi(live_api.store, live_api.socket_path)
    try:
        yield client
    finally:
        client.hang_up()


def delete_topics(live_api: LiveApi) -> None:
    """With their groups, so that the next test begins with nothing."""
    for name in live_api.store.topics.names():
        live_api.store.topics.delete(name)


def fresh_topic(live_api: LiveApi, name: str, *, partitions: int = 1, group: str = "") -> None:
    """An empty topic with an empty group; the one of the last test, if that left it so."""
    topics, groups = live_api.store.topics, [group] if group else []
    if name in topics.names():
        topic = topics.open(name)
        is_empty = not any(partition.high_watermark() for partition in topic.partitions)
        if is_empty and topics.group_names(name) == groups and len(topic.partitions) == partitions:
            return
        topics.delete(name)
    topic = topics.create(name, partitions=partitions)
    if group:
        topic.group(group)


def begin(
    live_api: LiveApi,
    operation: Operation[Result],
    names: Mapping[str, object] | None = None,
    query: Mapping[str, object] | None = None,
    body: object = None,
) -> Future[Result]:
    """A call that goes on in another thread."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            with another_client(live_api) as client:
                future.set_result(client.call(operation, names, query, body))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever asks
            future.set_exception(error)

    threading.Thread(target=run, name="client").start()
    return future


def told(future: Future[Result]) -> Result:
    return future.result(GIVE_UP_S)


def wait_until(live_api: LiveApi, condition: Callable[[], bool]) -> None:
    """Until the loop has come that far."""

    async def look() -> None:
        while not condition():
            await asyncio.sleep(0)

    live_api.in_loop(asyncio.wait_for(look(), GIVE_UP_S))


def poll_count(live_api: LiveApi, topic: str, partition: int = 0) -> int:
    """Fetches that wait at the partition's end. Groups of the topic listen there too."""
    return len(live_api.store.topic(topic).partition(partition)._state._listeners)


def lease_count(live_api: LiveApi) -> int:
    """Leases that wait for something, and do not look right now."""
    queues = live_api.api.service.lease_queues._queues.values()
    return sum(wake_event._waiter is not None for queue in queues for wake_event in queue._waiters)


def sent(
    live_api: LiveApi,
    operation: Operation[Any],
    names: Mapping[str, object],
    query: Mapping[str, object] | None = None,
    body: object = None,
) -> socket.socket:
    """A call that was sent, on a connection that the caller closes."""
    data = b"" if body is None else media.encode(body, media.MSGPACK)
    head = (
        f"{operation.method} {target_of(operation, names, query)} HTTP/1.1\r\nHost: x\r\n"
        f"Accept: {media.MSGPACK}\r\nContent-Type: {media.MSGPACK}\r\n"
        f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    plain = socket.socket(socket.AF_UNIX)
    plain.settimeout(GIVE_UP_S)
    plain.connect(live_api.socket_path)
    plain.sendall(head.encode() + data)
    return plain


def received(plain: socket.socket) -> tuple[int, bytes]:
    """Status and body of the answer; the connection ends with it."""
    found = bytearray()
    while piece := plain.recv(65536):
        found += piece
    plain.close()
    head, _, body = bytes(found).partition(b"\r\n\r\n")
    return int(head.split()[1]), body
