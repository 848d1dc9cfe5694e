"""Clients that are slow, stop, or go away in the middle: they are cut, and nothing is left of them.

On a clock that the tests move.
"""

from __future__ import annotations

import logging
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from lakebed.base.units import KIB, MIB
from lakebed.http.limits import Limits
from lakebed.s3.service import LARGE_MAX
from lakebed.seglake.errors import NoSuchKey
from tests.http.serving import in_loop, until
from tests.s3.wire import BUCKET, Wire, error_code, s3_wire, signed_request

UNSIGNED = "UNSIGNED-PAYLOAD"
CLIENTS = 200
LARGE_BYTES = 24 * MIB


async def is_forgotten(wire: Wire) -> None:
    server = wire.served.server
    await until(lambda: not server.connection_count and not server._tasks)


def has_object(wire: Wire, key: str) -> bool:
    try:
        wire.service.lake.objects.head(BUCKET, key)
    except NoSuchKey:
        return False
    return True


def test_many_heads_that_do_not_end_cost_little_and_are_cut(tmp_path: Path) -> None:
    begun = signed_request("GET", b"/bucket/key")[:-10]
    padding = b"".join(b"x-%d: %b\r\n" % (number, b"y" * 100) for number in range(50))

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, limits=Limits(header_s=10)) as wire:
            clients = [await wire.connect() for _ in range(CLIENTS)]
            await until(lambda: wire.served.server.connection_count == CLIENTS)
            tracemalloc.start()
            for client in clients:
                client.send_bytes(begun[:-2] + b"\r\n" + padding)
            connections = wire.served.server._connections
            sent = len(begun) + len(padding)
            await until(lambda: all(len(one._pending) >= sent for one in connections))
            held, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert held < CLIENTS * 32 * KIB
            wire.served.pass_time(11)
            for client in clients:
                answer = await client.answer()
                assert (answer.status, error_code(answer)) == (408, "RequestTimeout")
                assert await client.rest() == b""
                await client.close()
            await is_forgotten(wire)

    run()


@pytest.mark.parametrize("sent", [1000, 100_000, 5 * MIB])
def test_a_body_that_stops_coming_is_cut_and_not_stored(
    sent: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            client = await wire.connect()
            client.send_bytes(
                signed_request("PUT", b"/bucket/new", payload=UNSIGNED, length=6 * MIB)
            )
            client.send_bytes(bytes(sent))
            await until(lambda: bool(wire.served.server._tasks))
            await until(lambda: _received(wire) >= sent and _is_waiting(wire))
            wire.served.pass_time(29)
            assert wire.served.server.connection_count == 1
            wire.served.pass_time(2)
            await is_forgotten(wire)
            assert await client.rest() == b""
            assert not has_object(wire, "new")

    run()
    assert not caplog.records


def _has_taken(wire: Wire, count: int) -> bool:
    return _received(wire) == count and _is_waiting(wire)


def _received(wire: Wire) -> int:
    return sum(
        one._body.received_bytes for one in wire.served.server._connections if one._body is not None
    )


def _is_waiting(wire: Wire) -> bool:
    """For more, with all taken that came."""
    bodies = [one._body for one in wire.served.server._connections]
    return all(one is not None and one.is_waited_for and not one.held_bytes for one in bodies)


@pytest.mark.parametrize("sent", [10, 100_000, 5 * MIB])
def test_one_who_goes_away_while_it_sends_leaves_nothing(
    sent: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            client = await wire.connect()
            client.send_bytes(
                signed_request("PUT", b"/bucket/new", payload=UNSIGNED, length=6 * MIB)
            )
            client.send_bytes(bytes(sent))
            await until(lambda: _received(wire) >= sent)
            client.reset()
            await is_forgotten(wire)
            assert not has_object(wire, "new")
            assert (await wire.ask(signed_request("GET", b"/bucket"))).status == 200

    run()
    assert not caplog.records


@pytest.mark.parametrize("goes_away", [False, True])
def test_one_who_does_not_take_a_large_object_is_cut_and_it_is_read_no_further(
    goes_away: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            wire.service.lake.objects.put(BUCKET, "large", bytes(LARGE_BYTES))
            client = await wire.served.connect_slowly(buffer_bytes=4096)
            client.send_bytes(signed_request("GET", b"/bucket/large"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert f"Content-Length: {LARGE_BYTES}".encode() in head
            (connection,) = wire.served.server._connections
            await until(lambda: connection._out._waiter is not None)
            if goes_away:
                client.reset()
            else:
                wire.served.pass_time(1)
                wire.served.pass_time(62)
            await is_forgotten(wire)
            assert (await wire.ask(signed_request("GET", b"/bucket"))).status == 200

    run()
    assert not caplog.records


def test_one_who_says_no_more_after_its_request_is_still_answered(tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            wire.service.lake.objects.put(BUCKET, "large", bytes(2 * MIB))
            found = await wire.exchange(signed_request("GET", b"/bucket/large"))
            assert found.endswith(b"\r\n\r\n" + bytes(2 * MIB))

    run()


def test_a_small_upload_does_not_wait_for_any_number_of_slow_large_ones(tmp_path: Path) -> None:
    begun = signed_request("PUT", b"/bucket/slow", payload=UNSIGNED, length=6 * MIB)
    expecting = {"expect": "100-continue"}  # as boto3 does, however small the body is
    small = signed_request("PUT", b"/bucket/small", body=b"x", headers=expecting)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path) as wire:
            for _ in range(2 * LARGE_MAX):
                (await wire.connect()).send_bytes(begun + b"a")
            await until(lambda: _received(wire) == 2 * LARGE_MAX)
            client = await wire.connect()
            client.send_bytes(small[:-1])
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send_bytes(small[-1:])
            assert (await client.answer()).status == 200
            assert has_object(wire, "small")

    run()


def test_an_upload_below_the_minimum_rate_is_cut_though_bytes_keep_coming(tmp_path: Path) -> None:
    begun = signed_request("PUT", b"/bucket/slow", payload=UNSIGNED, length=6 * MIB)
    limits = Limits(rate_grace_s=30, rate_bytes_min=1000)

    @in_loop
    async def run() -> None:
        async with s3_wire(tmp_path, limits=limits) as wire:
            slow, steady = await wire.connect(), await wire.connect()
            for client in (slow, steady):
                client.send_bytes(begun + b"a")
            await until(lambda: _received(wire) == 2 and _is_waiting(wire))
            for turn in range(1, 7):
                wire.served.pass_time(5)
                slow.send_bytes(b"a")
                steady.send_bytes(bytes(5000))
                await until(partial(_has_taken, wire, 2 + 5001 * turn))
            wire.served.pass_time(1)
            assert await slow.rest() == b""
            await until(lambda: wire.served.server.connection_count == 1)
            assert not has_object(wire, "slow")

    run()
