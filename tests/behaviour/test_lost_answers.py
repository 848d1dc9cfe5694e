"""Many clients of a store in another process, whose connections end at any byte: every message and
every commit is stored once, and what was acked stays so."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from lakebed.api.problems import Unreachable
from lakebed.client.address import Address, address_of
from lakebed.client.store import RemoteStore
from lakebed.keratin.record_batch import build
from lakebed.stroma.errors import StaleLease
from tests.behaviour.fraying import FrayingProxy, fraying
from tests.behaviour.host import KEY, Host, Place
from tests.s3.test_server_memory import all_at_once

pytestmark = pytest.mark.process

CLIENTS = 4
RETRY_S = 60.0  # a connection that ends is nothing special: all of them do
LEASE_MS = 300
BYTES_MAX = 5_000  # of a connection; with TLS, a hand-shake and some calls


class Scene(NamedTuple):
    steady: RemoteStore  # not through the proxy
    frayed: RemoteStore


def address_by_tls(host: Host, url: str) -> Address:
    return address_of(
        url, access_key=KEY.access_key, secret_key=KEY.secret, ca_file=host.ca_file, environment={}
    )


def frayed_address(proxy: FrayingProxy, host: Host) -> Address:
    if isinstance(proxy.address, str):
        return Address(path=proxy.address)
    return address_by_tls(host, f"https://localhost:{proxy.address[1]}")


def proxied(kind: str, place: Place, random: Random) -> FrayingProxy:
    if kind == "socket":
        path = str(place.root / "lakebed.sock")
        return FrayingProxy(path, path + ".frayed", random=random, bytes_max=BYTES_MAX)
    server = ("127.0.0.1", int(place.url.rpartition(":")[2]))
    return FrayingProxy(server, ("127.0.0.1", 0), random=random, bytes_max=BYTES_MAX)


@pytest.fixture(params=["socket", "tls"])
def scene(request: pytest.FixtureRequest, host: Host, tmp_path: Path) -> Iterator[Scene]:
    seed = int(os.environ.get("LAKEBED_SEED", "8"))
    print(f"LAKEBED_SEED={seed} chooses again where connections end")
    place = host.open(tmp_path / "store")
    with fraying(proxied(request.param, place, Random(seed))) as proxy:
        address = frayed_address(proxy, host)
        with (
            RemoteStore(address_by_tls(host, place.url)) as steady,
            RemoteStore(address, retry_s=RETRY_S, random=Random(seed)) as frayed,
        ):
            yield Scene(steady, frayed)
    host.close(place.root)
    print(f"connections cut: {proxy.cuts}")
    assert proxy.cuts["answer"]


def produce_and_look(scene: Scene, batches: int) -> None:
    told: dict[bytes, tuple[int, int]] = {}
    scene.steady.topic("orders", partitions=2)

    def produce(client: int) -> None:
        topic = scene.frayed.topic("orders")
        for number in range(batches):
            values = [b"%d.%d.%d" % (client, number, one) for one in range(1 + number % 3)]
            appended = topic.append_batch(values)
            base_offset, count = appended.result()
            assert count == len(values)
            for index, value in enumerate(values):
                told[value] = (appended.partition, base_offset + index)

    all_at_once(CLIENTS, produce)
    found = {
        (partition.number, message.offset): message.value
        for partition in scene.steady.topic("orders").partitions
        for message in partition.read()
    }
    assert found == {place: value for value, place in told.items()}


def test_a_message_is_stored_once_and_where_it_was_told(scene: Scene) -> None:
    produce_and_look(scene, batches=60)


@pytest.mark.slow
def test_many_messages_are_stored_once_and_where_it_was_told(scene: Scene) -> None:
    produce_and_look(scene, batches=5_000)


def test_a_commit_is_stored_once(scene: Scene) -> None:
    scene.steady.topic("orders", partitions=2)
    versions = 20

    def commit(client: int) -> None:
        topic = scene.frayed.topic("orders")
        for version in range(versions):
            values = [b"%d.%d.%d" % (client, version, one) for one in range(2)]
            batches = {number: [build(values, timestamps_ms=1)] for number in range(2)}
            committed = topic.commit_batches(f"application {client}", version, batches)
            assert [one.count for one in committed] == [2, 2]

    all_at_once(CLIENTS, commit)
    for partition in scene.steady.topic("orders").partitions:
        found = sorted(message.value or b"" for message in partition.read())
        assert found == sorted(
            b"%d.%d.%d" % (client, version, one)
            for client in range(CLIENTS)
            for version in range(versions)
            for one in range(2)
        )


def test_what_was_acked_is_not_delivered_again_and_nothing_is_left_out(scene: Scene) -> None:
    """A lease whose answer is lost is over after a while; its messages come again."""
    messages = 300
    topic = scene.steady.topic("orders", partitions=2)
    topic.append_keyed([(b"%d" % one, b"%d" % one) for one in range(messages)])
    mutex, acked = threading.Lock(), set[tuple[int, int]]()
    group = scene.frayed.topic("orders").group("g")

    def consume(_: int) -> None:
        while len(acked) < messages:
            with mutex:
                settled = set(acked)
            try:
                leased = group.lease(max_messages=5, lease_ms=LEASE_MS, wait_s=0.1)
            except Unreachable:
                continue
            places = {(one.partition, one.offset) for one in leased}
            assert not places & settled
            try:
                group.ack_all(leased)
            except StaleLease:  # it took too long
                continue
            with mutex:
                acked.update(places)

    all_at_once(CLIENTS, consume)
    assert set(scene.steady.topic("orders").group("g").lag().values()) == {0}
    assert scene.steady.topic("orders").group("g").lease(wait_s=0.001) == []
