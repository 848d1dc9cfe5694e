"""Which connections are kept, and which are used again."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import Closed
from lakebed.client.connection import Connection
from lakebed.client.connection_pool import IDLE_COUNT_MAX, IDLE_S_MAX, ConnectionPool, Interruption
from tests.client.scripted import GIVE_UP_S, HastyRunner


class Pairs:
    """Makes connections to nobody, and has their other ends."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []
        self.made: list[Connection] = []
        self._kept: list[socket.socket] = []

    def make(self) -> Connection:
        here, there = socket.socketpair()
        self.ends.append(there)
        self._kept.append(here)
        self.made.append(Connection(here))
        return self.made[-1]

    def close(self) -> None:
        for one in (*self.ends, *self._kept):
            one.close()


@pytest.fixture
def pairs() -> Iterator[Pairs]:
    found = Pairs()
    yield found
    found.close()


@pytest.fixture
def runner() -> HastyRunner:
    return HastyRunner()


@pytest.fixture
def connections(pairs: Pairs, runner: HastyRunner) -> ConnectionPool:
    return ConnectionPool(pairs.make, runner=runner)


def use(connections: ConnectionPool) -> Connection:
    with connections.taken() as connection:
        connection.is_reusable = True
    return connection


def test_a_connection_that_was_left_usable_is_used_again(connections: ConnectionPool) -> None:
    first = use(connections)
    assert use(connections) is first


def test_one_that_was_not_left_usable_is_closed(connections: ConnectionPool, pairs: Pairs) -> None:
    with connections.taken():
        pass
    assert pairs.ends[0].recv(1) == b""
    assert connections.idle_count == 0


def test_one_that_the_server_closed_meanwhile_is_noticed(
    connections: ConnectionPool, pairs: Pairs
) -> None:
    first = use(connections)
    pairs.ends[0].close()
    assert use(connections) is not first


def test_one_with_bytes_that_nobody_asked_for_is_not_used(
    connections: ConnectionPool, pairs: Pairs
) -> None:
    first = use(connections)
    pairs.ends[0].sendall(b"HTTP/1.1 408 Too slow\r\n\r\n")
    assert use(connections) is not first


def test_one_that_was_idle_for_too_long_is_not_used(
    connections: ConnectionPool, runner: HastyRunner
) -> None:
    first = use(connections)
    runner.manual.now_ns += round(IDLE_S_MAX * NS_PER_S)
    assert use(connections) is first
    runner.manual.now_ns += round(IDLE_S_MAX * NS_PER_S) + 1
    assert use(connections) is not first


def test_only_so_many_are_kept(connections: ConnectionPool) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE_COUNT_MAX + 5):
            stack.enter_context(connections.taken()).is_reusable = True
    assert connections.idle_count == IDLE_COUNT_MAX


def test_nobody_shares_a_connection(connections: ConnectionPool) -> None:
    with connections.taken() as one, connections.taken() as another:
        assert one is not another


def test_closing_ends_what_is_idle_and_what_is_under_way(
    connections: ConnectionPool, pairs: Pairs
) -> None:
    use(connections)
    with connections.taken(), connections.taken():
        connections.close()
        for end in pairs.ends:
            end.settimeout(GIVE_UP_S)
            assert end.recv(1) == b""
        connections.close()
        with pytest.raises(Closed), connections.taken():
            pass
    assert connections.idle_count == 0


def test_a_forked_child_makes_its_own_and_leaves_the_parents_alone(
    connections: ConnectionPool, pairs: Pairs
) -> None:
    first = use(connections)
    child = os.fork()
    if not child:
        is_own = use(connections) is not first
        connections.close()
        os._exit(0 if is_own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert use(connections) is first
    pairs.ends[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs.ends[0].recv(1)


def test_a_child_does_not_wait_for_a_lock_of_its_parent(connections: ConnectionPool) -> None:
    use(connections)
    with connections._pool.mutex:
        child = os.fork()
        if not child:
            use(connections)
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_interruption_ends_a_wait_of_another_thread() -> None:
    here, there = socket.socketpair()
    interruption, waits, found = Interruption(), threading.Event(), []
    connection = Connection(here)

    def wait() -> None:
        with interruption.of(connection):
            waits.set()
            found.append(here.recv(1))

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(GIVE_UP_S)
    interruption.set()
    thread.join(GIVE_UP_S)
    assert found == [b""]
    with pytest.raises(Closed), interruption.of(connection):
        pass
    here.close()
    there.close()
