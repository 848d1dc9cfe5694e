"""Clients of a system under load, in a process of their own: `python -m bench.http_api_load`.

The process has one connection for each of its threads. It reads orders as lines of JSON, carries
each out in all threads at once, and answers with a line that has the sum of what they did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Protocol

import msgspec

from bench.nats_peer import NatsClient
from bench.redis_peer import RedisClient
from bench.topics_ours import LakebedTopic
from lakebed.client.store import RemoteStore

STOP_S = 30.0


class Client(Protocol):
    """What an order needs; `bench.groups.Queue` has it."""

    def append(self, payloads: Sequence[bytes]) -> None: ...

    def open_group(self, name: str) -> None: ...

    def lease_and_ack(self, batch_count: int, batch_records: int) -> int: ...

    def close(self) -> None: ...


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Of every client: append batches for some time, at least one; or, with a `group`, lease and
    ack so many of them."""

    batch_records: int
    message_bytes: int = 0
    duration_s: float = 0.0
    group: str = ""
    batch_count: int = 0


CLIENTS: dict[str, Callable[[str], Client]] = {
    "lakebed": lambda root: LakebedTopic(Path(root), open_store=RemoteStore.open),
    "redis": lambda port: RedisClient(int(port)),
    "nats": lambda port: NatsClient(int(port)),
    "nats-atomic": lambda port: NatsClient(int(port), atomic=True),
}


def carry_out(client: Client, order: Order) -> int:
    """How many messages."""
    if order.group:
        return client.lease_and_ack(order.batch_count, order.batch_records)
    payloads = [os.urandom(order.message_bytes) for _ in range(order.batch_records)]
    deadline_s = time.monotonic() + order.duration_s
    done = 0
    while not done or time.monotonic() < deadline_s:
        client.append(payloads)
        done += 1
    return done * len(payloads)


def carry_out_all(clients: Sequence[Client], order: Order, threads: ThreadPoolExecutor) -> int:
    return sum(threads.map(lambda client: carry_out(client, order), clients))


class LoadProcess:
    """As others see it."""

    def __init__(self, system: str, address: str, *, client_count: int) -> None:
        command = [sys.executable, "-m", "bench.http_api_load", system, address, str(client_count)]
        root = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout

    def wait_until_ready(self) -> None:
        self._answer()

    def begin(self, order: Order) -> None:
        self._orders.write(msgspec.json.encode(order).decode() + "\n")
        self._orders.flush()

    def end(self) -> int:
        return int(self._answer())

    def close(self) -> None:
        """It ends when there are no more orders."""
        self._orders.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _answer(self) -> str:
        line = self._answers.readline()
        if not line:
            raise OSError("the clients of a row failed: see what they printed")
        return line


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.http_api_load", description=__doc__)
    parser.add_argument("system", choices=sorted(CLIENTS))
    parser.add_argument("address", help="a root, or a port")
    parser.add_argument("client_count", type=int)
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(closing(CLIENTS[options.system](options.address)))
            for _ in range(options.client_count)
        ]
        threads = stack.enter_context(ThreadPoolExecutor(options.client_count))
        print(json.dumps("ready"), flush=True)
        group = ""
        for line in sys.stdin:
            order = msgspec.json.decode(line, type=Order)
            if order.group != group:
                group = order.group
                for client in clients:
                    client.open_group(group)
            print(carry_out_all(clients, order, threads), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
