"""The rows of topics and groups, with very little work, and the servers behind their peers.

Each contestant does what it counts, and what a peer was given it gives back. One that cannot run
here is skipped. No test here looks at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from bench import groups, topics
from bench.nats_peer import NatsStream
from bench.redis_peer import RedisStream
from bench.row import Resting, Row, Run, Unavailable
from bench.topics import FILLED, PEERS, LmdbTopic, Work, tiny
from lakebed.base.units import KIB

pytestmark = pytest.mark.process

# What one run of each contestant must say it did, by the beginning of the row's name.
EXPECTED = {
    "topics/durable batch of 1,000, sustained/100 B": 20 * 50,
    "topics/durable batch of 1,000, sustained/1 KiB": 2 * 50,
    "topics/durable batch of 1,000, in bursts/100 B": 10 * 50,
    "topics/durable batch of 1,000, in bursts/1 KiB": 1 * 50,
    "topics/consume/100 B": 20 * 50,
    "topics/consume/1 KiB": 2 * 50,
    "groups/lease and ack": 3 * 50,
    "groups/open": 1,
}

CASES = [
    (row.name, contestant.name)
    for module in (topics, groups)
    for row in module.rows(tiny(Path()))
    for contestant in row.contestants
]

Peer = RedisStream | NatsStream
AnyPeer = TypeVar("AnyPeer")
OpenPeer = Callable[[Path], Peer]

SERVERS: dict[str, OpenPeer] = {
    "Redis Streams": RedisStream,
    "NATS JetStream": NatsStream,
    "NATS JetStream, atomic batches": partial(NatsStream, atomic=True),
}


@pytest.mark.parametrize(("row_name", "contestant_name"), CASES)
def test_a_run_does_the_work_that_it_counts(
    row_name: str, contestant_name: str, tmp_path: Path
) -> None:
    (expected,) = (amount for start, amount in EXPECTED.items() if row_name.startswith(start))
    with running(row_name, contestant_name, tiny(tmp_path)) as run:
        for _ in range(3):
            assert run() == expected
            if isinstance(run, Resting):
                run.rest()
    assert not list(tmp_path.iterdir()), "something was left behind"


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_gives_back_in_order_what_it_was_given(name: str, tmp_path: Path) -> None:
    payloads = some_payloads(1_101)
    with closing(opened(PEERS[name], tmp_path)) as peer:
        peer.append(payloads[:1_000])
        peer.append(payloads[1_000:1_001])
        peer.append(payloads[1_001:])
        assert consumed(peer) == payloads
        assert consumed(peer) == payloads, "a second reading begins at the start again"


@pytest.mark.parametrize("name", FILLED)
def test_what_was_filled_without_a_sync_is_there_when_it_is_opened_again(
    name: str, tmp_path: Path
) -> None:
    payloads = some_payloads(1_200)
    with closing(opened(FILLED[name], tmp_path)) as peer:
        peer.append(payloads[:1_000])
    with closing(opened(PEERS[name], tmp_path)) as peer:
        peer.append(payloads[1_000:])
        assert consumed(peer) == payloads


@pytest.mark.parametrize("name", SERVERS)
def test_all_that_was_leased_is_acked_and_can_be_leased_again_after_a_rewind(
    name: str, tmp_path: Path
) -> None:
    with closing(opened(SERVERS[name], tmp_path)) as peer:
        for _ in range(3):
            peer.append(some_payloads(100))
        peer.create_group()
        assert peer.lease_and_ack(2, 100) == 200
        assert peer.pending() == 0
        assert peer.lease_and_ack(1, 100) == 100
        peer.rewind_group()
        assert peer.lease_and_ack(3, 100) == 300
        assert peer.pending() == 0


@pytest.mark.parametrize("row_name", [row.name for row in topics.rows() if "durable" in row.name])
def test_a_turn_whose_time_is_over_ends_with_the_batch(row_name: str, tmp_path: Path) -> None:
    work = replace(tiny(tmp_path), sustained_s_max=0, burst_s_max=0)
    with running(row_name, "LMDB", work) as run:
        assert run() == work.batch_records


def test_redis_leases_no_more_than_there_is(tmp_path: Path) -> None:
    with closing(opened(RedisStream, tmp_path)) as peer:
        peer.append(some_payloads(150))
        peer.create_group()
        assert peer.lease_and_ack(2, 100) == 150


def test_nats_refuses_an_atomic_batch_that_is_too_large(tmp_path: Path) -> None:
    with closing(opened(partial(NatsStream, atomic=True), tmp_path)) as peer:
        with pytest.raises(OSError, match="did not store"):
            peer.append(some_payloads(1_001))
        peer.append(some_payloads(10))
        assert len(consumed(peer)) == 10


@pytest.mark.parametrize(("durable", "setting"), [(True, b"always"), (False, b"no")])
def test_redis_syncs_as_it_was_told(durable: bool, setting: bytes, tmp_path: Path) -> None:
    with closing(opened(partial(RedisStream, durable=durable), tmp_path)) as peer:
        assert peer.call(b"CONFIG", b"GET", b"appendfsync") == [b"appendfsync", setting]
        assert peer.call(b"CONFIG", b"GET", b"appendonly") == [b"appendonly", b"yes"]


@pytest.mark.parametrize(("durable", "setting"), [(True, "always"), (False, '"2m"')])
def test_nats_syncs_as_it_was_told(durable: bool, setting: str, tmp_path: Path) -> None:
    with closing(opened(partial(NatsStream, durable=durable), tmp_path)):
        configuration = (tmp_path / "nats.conf").read_text()
    assert f"sync_interval: {setting}\n" in configuration


def test_lmdb_is_read_in_fetches(tmp_path: Path) -> None:
    with closing(LmdbTopic(tmp_path)) as topic:
        topic.append([bytes(KIB)] * 2_500)
        assert [len(fetch) for fetch in topic.fetches()] == [1_000, 1_000, 500]


def some_payloads(count: int) -> list[bytes]:
    """Of all lengths up to 300 bytes, line ends among them."""
    source = random.Random(count)
    return [source.randbytes(source.randrange(1, 300)) + b"\r\n" for _ in range(count)]


def consumed(topic: topics.Topic) -> list[bytes]:
    found: list[bytes] = []
    for fetch in topic.fetches():
        assert isinstance(fetch, Sequence)
        found.extend(map(bytes, fetch))
    return found


def opened(open_peer: Callable[[Path], AnyPeer], folder: Path) -> AnyPeer:
    try:
        return open_peer(folder)
    except Unavailable as missing:
        pytest.skip(str(missing))


@contextmanager
def running(row_name: str, contestant_name: str, work: Work) -> Iterator[Run]:
    rows: list[Row] = [*topics.rows(work), *groups.rows(work)]
    (contestant,) = (
        contestant
        for row in rows
        if row.name == row_name
        for contestant in row.contestants
        if contestant.name == contestant_name
    )
    with ExitStack() as stack:
        try:
            made = contestant.setup()
            if isinstance(made, AbstractContextManager):
                made = stack.enter_context(made)
        except Unavailable as missing:
            pytest.skip(str(missing))
        yield made
