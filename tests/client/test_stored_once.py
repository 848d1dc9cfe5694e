"""A produce whose answer is lost is sent again, and stored once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from lakebed.api.problems import Unreachable
from lakebed.client.address import Address
from lakebed.client.store import RemoteStore
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.headers import Producer
from lakebed.keratin.record_batch import build
from lakebed.store.staged_batch import CommittedPartition
from lakebed.store.topics import StoreTopic
from tests.client.cutting import CuttingProxy, cutting
from tests.client.scripted import HastyRunner
from tests.http_api.live_api import open_api

ANSWER_BYTES_MAX = 1000


class Scene(NamedTuple):
    client: RemoteStore
    stored: StoreTopic  # the same, embedded
    proxy: CuttingProxy
    runner: HastyRunner


@contextmanager
def serving(folder: Path, *, retry_s: float = 10.0) -> Iterator[Scene]:
    with (
        open_api(folder) as live_api,
        cutting(live_api.socket_path, str(folder / "cut.sock")) as proxy,
    ):
        stored = live_api.store.topic("orders", partitions=1)
        runner = HastyRunner()
        with RemoteStore(Address(path=proxy.path), runner=runner, retry_s=retry_s) as client:
            yield Scene(client, stored, proxy, runner)


def values_of(stored: StoreTopic) -> list[bytes | None]:
    return [message.value for message in stored.partition(0).read()]


def on_new_connections(client: RemoteStore) -> None:
    """One that is idle would not be cut."""
    idle = client._caller._connections._pool.idle
    while idle:
        idle.pop().close()


def test_wherever_its_answer_is_cut_it_is_stored_once(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, proxy, runner):
        topic = client.topic("orders")
        expected: list[bytes | None] = []
        for length in range(ANSWER_BYTES_MAX):
            runner.slept_s.clear()
            on_new_connections(client)
            proxy.cuts = [length]
            messages = [b"%d" % length, b"%d and more" % length]
            assert topic.append_batch(messages).result() == (len(expected), 2)
            expected += messages
            if not runner.slept_s:  # this time it was whole
                break
        assert 100 < length < ANSWER_BYTES_MAX - 1
        assert proxy.cut_count == length + 1
        assert values_of(stored) == expected


def test_answers_that_are_cut_again_and_again(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, proxy, runner):
        topic = client.topic("orders")
        on_new_connections(client)
        proxy.cuts = [0, 5, 20, 60]
        assert topic.append_batch([b"once"]).result() == (0, 1)
        assert values_of(stored) == [b"once"]
        assert len(runner.slept_s) == 4


def test_an_outcome_that_stays_unknown_is_told_and_its_producer_is_never_used_again(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, retry_s=0.0) as (client, stored, proxy, _):
        topic = client.topic("orders")
        assert topic.append_batch([b"first"]).result() == (0, 1)
        (known,) = client._producing._producers._free.producers
        on_new_connections(client)
        proxy.cuts = [0]
        lost = topic.append_batch([b"lost"])
        with pytest.raises(Unreachable, match="whether the call was carried out is not known"):
            lost.result()
        assert isinstance(lost.exception(), Unreachable)
        assert client._producing._producers._free.producers == []
        assert topic.append_batch([b"next"]).result() == (2, 1)
        assert values_of(stored) == [b"first", b"lost", b"next"]
        (fresh,) = client._producing._producers._free.producers
        assert fresh.producer_id != known.producer_id


def test_a_commit_of_the_server_that_forgot_is_sent_by_a_new_producer(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, _, _):
        topic = client.topic("orders")
        topic.append_batch([b"a"]).result()
        (mine,) = client._producing._producers._free.producers
        mine.advance("orders", 0, 5)  # as if the server had lost what it acknowledged
        assert topic.append_batch([b"b"]).result() == (1, 1)
        assert values_of(stored) == [b"a", b"b"]


def test_a_producer_of_the_callers_own_is_passed_on(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, _, _):
        topic = client.topic("orders")
        for _ in range(2):
            result = topic.append_batch([b"a", b"b"], producer=Producer(7, 1, 0)).result()
            assert result == (0, 2)
        assert topic.append_batch([b"c"], producer=Producer(7, 1, 2)).result() == (2, 1)
        gap = topic.append_batch([b"x"], producer=Producer(7, 1, 9))
        assert isinstance(gap.exception(), OutOfOrderSequence)
        fenced = topic.append_batch([b"x"], producer=Producer(7, 0, 0))
        assert isinstance(fenced.exception(), ProducerFenced)
        assert values_of(stored) == [b"a", b"b", b"c"]


def test_a_commit_whose_answer_is_lost_is_committed_once(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, proxy, runner):
        topic = client.topic("orders")
        batch = build([b"a", b"b"], timestamps_ms=1)
        for version, length in enumerate((0, 50, 150)):
            on_new_connections(client)
            proxy.cuts = [length]
            committed = topic.commit_batches("app", version, {0: [batch]})
            assert committed == [
                CommittedPartition(0, False, 2 * version, 2)
            ]  # it was there when it was repeated
        assert len(runner.slept_s) == 3
        assert values_of(stored) == [b"a", b"b"] * 3


def test_threads_do_not_wait_for_one_another_and_lose_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, proxy, _):
        topic = client.topic("orders")
        on_new_connections(client)
        proxy.cuts = [0, None, 30, None, 70]
        results: list[int] = []

        def work(name: int) -> None:
            for number in range(20):
                base, _ = topic.append_batch([b"%d-%d" % (name, number)]).result()
                results.append(base)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = values_of(stored)
        assert sorted(map(bytes, filter(None, found))) == sorted(
            b"%d-%d" % (a, b) for a in range(8) for b in range(20)
        )
        assert sorted(results) == list(range(160))
        assert len(client._producing._producers._free.producers) <= 8


def test_a_forked_child_is_another_producer(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, stored, _, _):
        topic = client.topic("orders")
        topic.append_batch([b"parent"]).result()
        child = os.fork()
        if not child:
            is_stored = topic.append_batch([b"child"]).result() == (1, 1)
            os._exit(0 if is_stored else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert topic.append_batch([b"parent again"]).result() == (2, 1)
        assert values_of(stored) == [b"parent", b"child", b"parent again"]
