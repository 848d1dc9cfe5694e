"""The local socket: produce, and lease with ack, by other processes than the store's own.

- lakebed: `lakebed serve`, and clients that go through the socket in its root;
- lakebed, embedded: the same calls in the process that has the store open, by threads;
- Redis Streams: `XADD`, in a `MULTI` if there are several; `XREADGROUP`, and `XACK` in one `MULTI`
  with the next `XREADGROUP`. `appendfsync always`;
- NATS JetStream: a publish, an atomic batch if there are several; a pull consumer with explicit
  acks, the last one of a batch confirmed. `sync_interval: always`, which does not make acks
  durable.

All but the embedded one are one server process, and clients in up to four others, each with a
connection of its own. A message is durable when its client hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from bench.aof_stores import SCRATCH, scratch_folder
from bench.http_api_load import Client, LoadProcess, Order, carry_out_all
from bench.nats_peer import NatsStream
from bench.redis_peer import RedisStream
from bench.row import Contestant, Row, Run
from bench.servers import Server
from bench.topics_ours import LakebedTopic
from lakebed.client.store import RemoteStore

PROCESSES_MAX = 4
FILL_RECORDS = 1_000
SERVED, EMBEDDED = "lakebed", "lakebed, embedded"
_KEY = {"LAKEBED_ACCESS_KEY": "lakebed-bench", "LAKEBED_SECRET_KEY": "lakebed-bench-secret"}


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    message_bytes: int = 100
    batches: tuple[int, ...] = (1, 100, 1_000)
    producers: tuple[int, ...] = (1, 16)
    consumers: tuple[int, ...] = (1, 8)
    duration_s: float = 1.0
    lease_messages: int = 16_000  # in a run, at most
    lease_batches: int = 160  # in a run, at most
    rest_s: float = 0.2


FULL = Work()


class Control(Client, Protocol):
    """Who prepares what the clients do."""

    def create_group(self) -> None: ...

    def rewind_group(self) -> None:
        """All messages can be leased again."""

    @property
    def group_name(self) -> str: ...


class Serving(Control, Protocol):
    """A server, and one connection to it."""

    address: str  # for `bench.http_api_load`


class LakebedServer(LakebedTopic):
    """`lakebed serve`, and the topic."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "root")
        self._server = Server("lakebed", self._arguments, folder, environment=_KEY)
        try:
            super().__init__(Path(self.address), open_store=RemoteStore.open)
        except BaseException:
            self._server.close()
            raise

    def close(self) -> None:
        super().close()
        self._server.close()

    def _arguments(self, port: int) -> Sequence[str]:
        return ["--root", self.address, "serve", "--s3-port", "0", "--http-port", str(port)]


class System(NamedTuple):
    """What clients it has, and how it is started; also in a way that it is filled quickly."""

    client: str
    start: Callable[[Path], Serving]
    start_to_fill: Callable[[Path], Serving]


def systems(batch_records: int) -> dict[str, System]:
    """By the name of the contestant, without the embedded one."""
    is_atomic = batch_records > 1
    return {
        SERVED: System("lakebed", LakebedServer, LakebedServer),
        "Redis Streams": System("redis", RedisStream, partial(RedisStream, durable=False)),
        "NATS JetStream": System(
            "nats-atomic" if is_atomic else "nats",
            partial(NatsStream, atomic=is_atomic),
            partial(NatsStream, atomic=is_atomic, durable=False),
        ),
    }


def rows(work: Work = FULL) -> Iterator[Row]:
    for batch_records in work.batches:
        for count in work.producers:
            yield produce_row(batch_records, count, work)
    for batch_records in work.batches:
        for count in work.consumers:
            yield lease_row(batch_records, count, work)


# Producing.


def produce_row(batch_records: int, client_count: int, work: Work) -> Row:
    order = Order(
        batch_records=batch_records,
        message_bytes=work.message_bytes,
        duration_s=work.duration_s,
    )
    run = partial(_produce, client_count=client_count, order=order, work=work)
    return Row(
        name=f"http-api/produce {batch_records:,} x {work.message_bytes} B/{client_count} clients",
        unit="messages",
        baseline=EMBEDDED,
        burst_rest_s=work.rest_s,
        note=f"turns of {work.duration_s} s; before each all rest {work.rest_s} s",
        contestants=[
            Contestant(EMBEDDED, partial(_embedded, partial(_append, order), client_count, work)),
            *(
                Contestant(name, partial(run, system))
                for name, system in systems(batch_records).items()
            ),
        ],
    )


@contextmanager
def _produce(system: System, *, client_count: int, order: Order, work: Work) -> Iterator[Run]:
    with (
        scratch_folder(work.scratch) as folder,
        closing(system.start(folder)) as server,
        _clients(system.client, server.address, client_count) as ask,
    ):
        yield partial(ask, order)


def _append(order: Order, topic: LakebedTopic, ask: Ask) -> Run:  # noqa: ARG001
    return partial(ask, order)


# Leasing.


def lease_row(batch_records: int, client_count: int, work: Work) -> Row:
    batch_count = _batches_each(batch_records, client_count, work)
    order = Order(batch_records=batch_records, batch_count=batch_count)
    run = partial(_lease, client_count=client_count, order=order, work=work)
    return Row(
        name=f"http-api/lease and ack {batch_records:,}/{client_count} clients",
        unit="messages",
        baseline=EMBEDDED,
        burst_rest_s=work.rest_s,
        note=(
            f"{batch_count} batches for each client, from the first message on; before each turn "
            "the group is rewound, untimed. The acks of NATS are confirmed, but not durable."
        ),
        contestants=[
            Contestant(
                EMBEDDED,
                partial(_embedded, partial(_drain, order, client_count, work), client_count, work),
            ),
            *(
                Contestant(name, partial(run, system))
                for name, system in systems(batch_records).items()
            ),
        ],
    )


def _batches_each(batch_records: int, client_count: int, work: Work) -> int:
    batches = min(work.lease_batches, work.lease_messages // batch_records)
    return max(1, batches // client_count)


@contextmanager
def _lease(system: System, *, client_count: int, order: Order, work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        with closing(system.start_to_fill(folder)) as server:
            _fill(server, order, client_count, work)
        with (
            closing(system.start(folder)) as server,
            _clients(system.client, server.address, client_count) as ask,
        ):
            yield Drain(server, ask, order)


def _drain(order: Order, client_count: int, work: Work, topic: LakebedTopic, ask: Ask) -> Run:
    _fill(topic, order, client_count, work)
    return Drain(topic, ask, order)


def _fill(control: Client, order: Order, client_count: int, work: Work) -> None:
    left = client_count * order.batch_count * order.batch_records
    while left:
        count = min(left, FILL_RECORDS)
        control.append([bytes(work.message_bytes)] * count)
        left -= count


class Drain:
    """All messages are leased and acked; then it has to rest."""

    def __init__(self, control: Control, ask: Ask, order: Order) -> None:
        self._control = control
        self._ask = ask
        self._order = order
        self._is_empty = False
        control.create_group()

    def __call__(self) -> float:
        self.rest()
        self._is_empty = True
        return self._ask(msgspec.structs.replace(self._order, group=self._control.group_name))

    def rest(self) -> None:
        if self._is_empty:
            self._control.rewind_group()
            self._is_empty = False


# Whom to ask.

Ask = Callable[[Order], int]
"""All clients, at once; returns how many messages."""


@contextmanager
def _clients(kind: str, address: str, count: int) -> Iterator[Ask]:
    """In processes of their own."""
    process_count = min(count, PROCESSES_MAX)
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                closing(LoadProcess(kind, address, client_count=count // process_count))
            )
            for _ in range(process_count)
        ]
        for process in processes:
            process.wait_until_ready()

        def ask(order: Order) -> int:
            for process in processes:
                process.begin(order)
            return sum([process.end() for process in processes])

        yield ask


@contextmanager
def _embedded(
    prepare: Callable[[LakebedTopic, Ask], Run], client_count: int, work: Work
) -> Iterator[Run]:
    """In this process: a thread for each client."""
    with (
        scratch_folder(work.scratch) as folder,
        closing(LakebedTopic(folder)) as topic,
        ThreadPoolExecutor(client_count) as threads,
    ):

        def ask(order: Order) -> int:
            return carry_out_all([topic] * client_count, order, threads)

        yield prepare(topic, ask)


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(
        FULL,
        scratch=scratch,
        batches=(1, 20),
        producers=(2,),
        consumers=(2,),
        duration_s=0.0,
        lease_messages=80,
        lease_batches=8,
        rest_s=0.0,
    )
