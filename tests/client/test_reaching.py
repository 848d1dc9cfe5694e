"""Nobody there, not trusted, not answering: told in one line, with what became of the call."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from pathlib import Path

import pytest

from lakebed.api import admin, topics
from lakebed.api.problems import Unauthenticated, Unreachable
from lakebed.base.errors import Closed, TooLarge
from lakebed.client.address import Address, address_of
from lakebed.client.errors import Failure
from lakebed.client.sockets import raise_unconnected
from lakebed.client.store import RemoteStore
from tests.client.callers import KNOWN, calling
from tests.client.scripted import GIVE_UP_S, HastyRunner, document, problem, says, scripted
from tests.http.certificates import write_pair

NEW = topics.NewTopic(name="orders")
HEALTH = says(document(admin.Health("ok", "1")))


def server_context(folder: Path) -> ssl.SSLContext:
    write_pair(folder, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def told_by(address: Address, *, retry_s: float = 0.0) -> tuple[str, HastyRunner]:
    """What a call that changes something tells, and how long it waited."""
    runner = HastyRunner()
    store = RemoteStore(address, retry_s=retry_s, runner=runner)
    with store, pytest.raises(Unreachable) as told:
        store.topics.create("orders")
    return str(told.value), runner


def test_a_root_that_nobody_has_open(tmp_path: Path) -> None:
    text, _ = told_by(address_of(tmp_path))
    assert text == (
        f"{tmp_path}/lakebed.sock is not served: the store is not open for writing, or the program "
        "that has it open serves no socket; the call did not run"
    )
    missing, _ = told_by(address_of(tmp_path / "missing"))
    assert missing.startswith(f"{tmp_path}/missing/lakebed.sock is not served")


def test_a_socket_that_a_killed_writer_left(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "lakebed.sock"))
    text, runner = told_by(address_of(tmp_path), retry_s=10)
    assert "lakebed.sock is not served" in text
    assert 9 <= sum(runner.slept_s) <= 10, "it may come back: that is waited for"


def test_a_path_longer_than_an_address_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    text, _ = told_by(address_of(folder))
    assert "lakebed.sock is not served" in text


def test_a_port_that_nobody_listens_on() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        text, _ = told_by(Address(host="127.0.0.1", port=port))
    assert text == f"127.0.0.1:{port}: connection refused; the call did not run"


def test_what_changes_nothing_says_nothing_of_being_carried_out(tmp_path: Path) -> None:
    store = RemoteStore(address_of(tmp_path), retry_s=0)
    with store, pytest.raises(Unreachable) as told:
        store.topics.names()
    assert "carried out" not in str(told.value)


def test_another_users_socket_is_no_question_of_patience() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied")
    with pytest.raises(Unauthenticated, match="only the user that opened the store may connect"):
        raise_unconnected(Address(path="/a/lakebed.sock"), denied, 1.0)


@pytest.mark.parametrize(
    ("error", "text", "heals"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "Name unknown"),
            "the host name cannot be resolved",
            False,
        ),
        (socket.gaierror(socket.EAI_AGAIN, "Later"), "the host name cannot be resolved", True),
        (TimeoutError(), "no connection within 5 s", True),
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no route to host", True),
        (ssl.SSLEOFError(8, "EOF"), "eof", True),
    ],
)
def test_why_there_is_no_connection(error: OSError, text: str, heals: bool) -> None:
    with pytest.raises(Failure, match=text) as told:
        raise_unconnected(Address(host="host", port=1), error, 5.0)
    assert (told.value.heals, told.value.is_sent) == (heals, False)


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    with scripted(HEALTH, tls=server_context(tmp_path)) as server:
        address = address_of(f"https://localhost:{server.port}", environment={})
        text, runner = told_by(address, retry_s=10)
    assert "the server's certificate is not trusted" in text
    assert "ca_file" in text
    assert text.endswith("the call did not run")
    assert (runner.slept_s, server.seen) == ([], [])


def test_a_certificate_of_another_host(tmp_path: Path) -> None:
    with scripted(HEALTH, tls=server_context(tmp_path)) as server:
        url = f"https://127.0.0.1:{server.port}"
        address = address_of(url, ca_file=tmp_path / "cert.pem", environment={})
        text, _ = told_by(address)
    assert "the server's certificate is not trusted" in text
    assert server.seen == []


def test_a_server_without_tls() -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        sock, _ = listening.accept()
        with sock:
            sock.recv(1)
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            sock.recv(1 << 16)

    thread = threading.Thread(target=serve)
    thread.start()
    url = f"https://localhost:{listening.getsockname()[1]}"
    text, runner = told_by(address_of(url, environment={}), retry_s=10)
    assert "the TLS handshake failed" in text
    assert runner.slept_s == []
    thread.join(GIVE_UP_S)
    listening.close()


@pytest.mark.parametrize("is_repeatable", [False, True])
def test_a_server_that_never_answers(is_repeatable: bool) -> None:
    stuck = threading.Event()

    def waits(_: socket.socket) -> bool:
        stuck.wait(GIVE_UP_S)
        return False

    with calling(*[waits] * 3, answer_s=0.05, retry_s=0.02) as (server, caller, runner):
        try:
            with pytest.raises(Unreachable, match=r"no response within 0\.05 s") as told:
                caller.call(topics.CREATE_TOPIC, body=NEW, is_repeatable=is_repeatable)
        finally:
            stuck.set()
    assert str(told.value).endswith("it is unknown whether the call ran")
    assert bool(runner.slept_s) == is_repeatable
    assert len(server.seen) == len(runner.slept_s) + 1


def test_a_wait_of_the_call_itself_is_no_silence_of_the_server() -> None:
    late = threading.Event()

    def answers_late(sock: socket.socket) -> bool:
        late.wait(0.2)
        return HEALTH(sock)

    with calling(answers_late, answer_s=0.05, retry_s=0) as (_, caller, _):
        assert caller.call(admin.HEALTH, wait_s=GIVE_UP_S).status == "ok"


def test_closing_ends_a_call_of_another_thread() -> None:
    asked, found = threading.Event(), []

    def waits(_: socket.socket) -> bool:
        asked.set()
        return True

    with calling(waits) as (_, caller, _):

        def call() -> None:
            with pytest.raises(Closed) as told:
                caller.call(admin.HEALTH)
            found.append(told.value)

        thread = threading.Thread(target=call)
        thread.start()
        asked.wait(GIVE_UP_S)
        caller.close()
        thread.join(GIVE_UP_S)
    assert len(found) == 1


def test_a_refusal_is_heard_although_the_server_does_not_read_on() -> None:
    """A body that is not wanted: the server answers and hangs up while it is being sent."""
    listening = socket.create_server(("127.0.0.1", 0))
    refusal = problem(TooLarge("the body", size=3, limit=2))

    def serve() -> None:
        sock, _ = listening.accept()
        with sock:
            sock.recv(100)
            sock.sendall(refusal)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 20):  # reads on, as a server of ours lingers
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    address = Address(host="127.0.0.1", port=listening.getsockname()[1], credentials=KNOWN)
    body = topics.Produce([bytes(5_000_000)])
    with RemoteStore(address, retry_s=0) as store, pytest.raises(TooLarge):
        store._caller.call(topics.PRODUCE, {"topic": "orders"}, body=body)
    listening.close()
    thread.join(GIVE_UP_S)


def test_what_the_server_would_not_hear_out_is_not_sent() -> None:
    with calling() as (server, caller, _):
        with pytest.raises(TooLarge) as told:
            caller.call(topics.CREATE_TOPIC, body=topics.NewTopic(name="x" * 5_000_000))
        assert told.value.size is not None
        assert told.value.size > told.value.limit == topics.CREATE_TOPIC.body_bytes_max
        assert str(told.value).startswith("the size of the request body in bytes is 50")
        assert server.connections == 0
