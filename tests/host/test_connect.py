"""One call for whoever does not care who has the store open."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

import lakebed
from lakebed.aof.manager import AofManager
from lakebed.base.errors import InputError, Locked
from lakebed.client.store import RemoteStore
from lakebed.host.connect import connect, first_of
from lakebed.host.store import Store
from tests.client.scripted import HastyRunner


def test_a_root_that_nobody_has_open_is_opened(tmp_path: Path) -> None:
    with lakebed.connect(tmp_path / "new") as store:
        assert isinstance(store, Store)
        store.topic("orders").append_batch([b"a"]).result()
    with connect(str(tmp_path / "new")) as store:
        assert isinstance(store, Store)


def test_a_root_that_somebody_has_open_is_used_through_its_socket(tmp_path: Path) -> None:
    with Store.open(tmp_path) as writer, connect(tmp_path) as store:
        assert isinstance(store, RemoteStore)
        store.topic("orders").append_batch([b"a"]).result()
        assert [one.value for one in writer.topic("orders").partition(0).read()] == [b"a"]


def test_a_url_is_remote_and_nothing_is_asked_yet() -> None:
    with connect("http://127.0.0.1:1", access_key="k", secret_key="s") as store:  # noqa: S106
        assert isinstance(store, RemoteStore)
        assert store.address == "127.0.0.1:1"


def test_keys_are_not_for_roots(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="for URLs"):
        connect(tmp_path, access_key="k", secret_key="s")  # noqa: S106


def test_a_lock_without_a_socket_is_told(tmp_path: Path) -> None:
    with (
        AofManager(tmp_path),
        pytest.raises(Locked, match="does not serve the store's socket"),
    ):
        connect(tmp_path, retry_s=0.05)


def test_a_socket_that_a_killed_writer_left_is_no_writer(tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "lakebed.sock"))
    with connect(tmp_path) as store:
        assert isinstance(store, Store)


@pytest.mark.parametrize("tries", [0, 1, 5])
@pytest.mark.parametrize("ends_served", [False, True])
def test_a_writer_that_is_just_opening_or_closing_is_waited_out(
    tries: int, ends_served: bool
) -> None:
    """Nobody serves and nobody can open, for a while; then one of both is so."""
    runner, looks = HastyRunner(), []

    def find_served() -> str | None:
        looks.append("served")
        return "served" if ends_served and len(looks) > 2 * tries else None

    def open_here() -> str:
        looks.append("open")
        if ends_served or len(looks) <= 2 * tries:
            raise Locked("by another")
        return "opened"

    found = first_of(find_served, open_here, runner=runner, random=Random(1), wait_s=10)
    assert found == ("served" if ends_served else "opened")
    assert len(runner.slept_s) == tries


def test_what_stays_locked_is_told_at_the_deadline() -> None:
    runner = HastyRunner()

    def open_here() -> str:
        raise Locked("data/lakebed.lock: locked by process 7")

    with pytest.raises(
        Locked, match="locked by process 7; that process does not serve the store's socket"
    ):
        first_of(lambda: None, open_here, runner=runner, random=Random(1), wait_s=10)
    assert 9 <= sum(runner.slept_s) <= 10


def test_many_who_connect_at_once_all_get_the_store(tmp_path: Path) -> None:
    """Whoever is first opens it; it stays until all are done."""
    opened: list[object] = []
    all_there = threading.Barrier(6, timeout=30)

    def work(number: int) -> None:
        with connect(tmp_path) as store:
            opened.append(type(store))
            store.topic("orders").append_batch([b"%d" % number]).result()
            all_there.wait()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(map(str, opened)) == sorted(map(str, [Store, *[RemoteStore] * 5]))
    with connect(tmp_path) as store:
        values = {one.value for one in store.topic("orders").partition(0).read()}
    assert values == {b"%d" % number for number in range(6)}
