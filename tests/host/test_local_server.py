"""The socket beside a store: when it is there, who goes first at its end, what is in its way."""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lakebed.api.jobs import JOBS
from lakebed.base.errors import Closed, Locked
from lakebed.host.local_server import SOCKET_NAME, LocalServer, open_local_server
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from tests.fakes.function_job import FunctionJob
from tests.host.local_clients import Client, is_refused, requests_under_way, until

THREAD_NAME = "lakebed-socket"


def threads() -> list[str]:
    names = [one.name for one in threading.enumerate()]
    return [name for name in names if name.startswith((THREAD_NAME, "lakebed-http-api"))]


def test_a_client_is_answered_beside_the_program_that_embeds(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        client = Client(tmp_path)
        assert client.ask("GET", "/v1/health")["status"] == "ok"
        state = client.ask("GET", "/v1/state")
        assert (state["root"], state["process_id"]) == (str(tmp_path), os.getpid())
        log = store.log("orders")
        log.flush(log.append_record(b"hello"))
        assert client.ask("GET", "/v1/state")["logs"] == ["orders"]
        client.close()
    assert threads() == []


def test_the_file_is_the_owners_alone_and_gone_after_the_end(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        mode = (tmp_path / SOCKET_NAME).lstat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert threads() == [THREAD_NAME]
    assert not (tmp_path / SOCKET_NAME).exists()
    assert threads() == []


def test_who_wants_none_has_none(tmp_path: Path) -> None:
    with Store.open(tmp_path, serves=False):
        assert not (tmp_path / SOCKET_NAME).exists()
    with Store.open(tmp_path, disk=real_disk()):
        assert not (tmp_path / SOCKET_NAME).exists()
    with Store.open(tmp_path, read_only=True):
        assert not (tmp_path / SOCKET_NAME).exists()


def test_a_second_writer_is_refused_and_the_first_keeps_its_socket(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        with pytest.raises(Locked):
            Store.open(tmp_path)
        client = Client(tmp_path)
        client.ask("GET", "/v1/health")
        client.close()


def test_it_is_there_again_after_it_was_closed(tmp_path: Path) -> None:
    for _ in range(3):
        with Store.open(tmp_path):
            client = Client(tmp_path)
            client.ask("GET", "/v1/health")
            client.close()
        assert is_refused(tmp_path)


def test_a_root_of_any_length_has_one(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["a long folder" * 5] * 4)
    with Store.open(root):
        client = Client(root)
        client.ask("GET", "/v1/health")
        client.close()


def test_a_relative_root_has_one_wherever_the_program_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("root", serves=False) as store:
        local_server = open_local_server(store)
        assert local_server is not None
        monkeypatch.chdir("/")
        local_server.close()
        assert not (tmp_path / "root" / SOCKET_NAME).exists()
        monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_store_whose_socket_cannot_be_made_is_open_all_the_same(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / SOCKET_NAME
    make: Mapping[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "file": path.touch,
        "link": lambda: path.symlink_to("elsewhere"),
    }
    make[kind]()
    with caplog.at_level(logging.WARNING), Store.open(tmp_path) as store:
        store.log("orders").append_record(b"hello")
    (record,) = caplog.records
    assert record.message.startswith(f"socket_not_made path={path} ")
    assert f"is a {kind} and no socket" in record.message
    assert os.path.lexists(path)
    assert threads() == []


def test_a_file_that_somebody_else_put_there_is_not_removed(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        (tmp_path / SOCKET_NAME).unlink()
        (tmp_path / SOCKET_NAME).write_text("precious")
    assert (tmp_path / SOCKET_NAME).read_text() == "precious"


def test_what_is_under_way_is_finished_before_the_store_is_closed(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.log("orders")
    slow, other = Client(tmp_path), Client(tmp_path)
    slow.begin_append("orders")
    until(lambda: requests_under_way(other) == 2)
    closing = threading.Thread(target=store.close)
    closing.start()
    until(lambda: is_refused(tmp_path))
    assert other.is_ended_by_the_other()  # it had nothing under way
    assert slow.end_append() == 200
    closing.join()
    slow.close()
    other.close()
    with Store.open(tmp_path) as store:
        assert [bytes(one.payload) for one in store.log("orders").read()] == [b"first", b"second"]


def test_what_does_not_end_is_cut_after_the_limit(tmp_path: Path) -> None:
    with Store.open(tmp_path, serves=False) as store:
        store.log("orders")
        local_server = LocalServer(store, str(tmp_path / SOCKET_NAME), drain_s=0.0)
        slow, other = Client(tmp_path), Client(tmp_path)
        slow.begin_append("orders")
        until(lambda: requests_under_way(other) == 2)
        local_server.close()
        assert slow.is_ended_by_the_other()
        slow.close()
        other.close()
        assert list(store.log("orders").read()) == []


def test_closing_twice_and_from_many_threads_is_closing_once(tmp_path: Path) -> None:
    for _ in range(20):
        store = Store.open(tmp_path)
        client = Client(tmp_path)
        client.ask("GET", "/v1/health")
        closing = [threading.Thread(target=store.close) for _ in range(4)]
        for one in closing:
            one.start()
        for one in closing:
            one.join()
        store.close()
        client.close()
    assert threads() == []


def test_a_client_that_comes_at_the_end_is_answered_or_refused(tmp_path: Path) -> None:
    """Whatever the moment: it gets an answer, or the end of its connection."""
    for _ in range(20):
        store = Store.open(tmp_path)
        seen: list[str] = []

        def knock(seen: list[str] = seen) -> None:
            while not seen or seen[-1] == "answered":
                client = Client(tmp_path)
                try:
                    client.ask("GET", "/v1/health")
                    seen.append("answered")
                except (OSError, EOFError):
                    seen.append("refused")
                except Exception as error:  # noqa: BLE001 - the end in the middle of an answer
                    seen.append(type(error).__name__)
                finally:
                    client.close()

        knocking = threading.Thread(target=knock)
        knocking.start()
        until(seen.__len__)
        store.close()
        knocking.join()
        assert set(seen) <= {"answered", "refused", "RemoteDisconnected"}, seen


def test_work_that_closes_the_store_waits_no_longer_than_requests_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_closed = threading.Event()
    local_servers: list[LocalServer] = []

    def close(*_: object) -> dict[str, Any]:
        local_servers[0].close()
        has_closed.set()
        return {}

    monkeypatch.setitem(JOBS, "close", FunctionJob(close))
    with Store.open(tmp_path, serves=False) as store:
        local_servers.append(LocalServer(store, str(tmp_path / SOCKET_NAME), drain_s=0.1))
        client = Client(tmp_path)
        client.ask("POST", "/v1/work", {"kind": "close"})
        assert has_closed.wait(60)
        client.close()
    assert is_refused(tmp_path)


def test_closing_in_the_servers_own_thread_does_not_wait_for_itself(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    has_closed = threading.Event()

    class Closing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.message.startswith("work_started") and not has_closed.is_set():
                assert threading.current_thread().name == THREAD_NAME
                store.close()
                has_closed.set()

        def handle(self, record: logging.LogRecord) -> bool:
            record.message = record.getMessage()
            self.emit(record)
            return True

    logger = logging.getLogger("lakebed.http_api.jobs")
    handler, level = Closing(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    client = Client(tmp_path)
    try:
        client.ask("POST", "/v1/work", {"kind": "objects-verify"})
        assert has_closed.wait(60)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    client.close()
    until(lambda: THREAD_NAME not in threads())
    with pytest.raises(Closed):
        store.log("orders")
    Store.open(tmp_path).close()


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Store.open(tmp_path):
            client = Client(tmp_path)
            client.ask("GET", "/v1/health")
            client.close()
    assert len(os.listdir("/proc/self/fd")) == before
