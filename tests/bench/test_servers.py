"""Servers of peers are found, started on a free port, and stopped; with a Python as the server."""

from __future__ import annotations

import socket
import sysconfig
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bench import servers
from bench.row import Unavailable
from bench.servers import ATTEMPTS, HOST, NotStarted, Server, find_program, free_port

PYTHON = "python3"
ECHO = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(100))
"""


def echo(port: int) -> Sequence[str]:
    return ["-c", ECHO, str(port)]


def test_a_program_that_is_nowhere_is_unavailable_by_name() -> None:
    with pytest.raises(Unavailable, match="no such-server here"):
        find_program("such-server")


def test_a_program_of_the_environment_goes_before_one_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (make_program(tmp_path / name) for name in ("ours", "theirs"))
    monkeypatch.setenv("PATH", str(theirs.parent))
    assert find_program("some-server") == str(theirs)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(ours.parent))
    assert find_program("some-server") == str(ours)


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server((HOST, free_port())):
        pass


@pytest.mark.process
def test_a_server_answers_until_it_is_closed(tmp_path: Path) -> None:
    server = Server(PYTHON, echo, tmp_path / "new")
    with closing(server), server.connect() as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    server.close()  # again


@pytest.mark.process
def test_a_server_that_ends_at_once_is_tried_again_and_then_says_what_it_printed(
    tmp_path: Path,
) -> None:
    ports = []

    def failing(port: int) -> Sequence[str]:
        ports.append(port)
        return ["-c", "raise SystemExit('out of luck')"]

    with pytest.raises(NotStarted, match="out of luck"):
        Server(PYTHON, failing, tmp_path)
    assert len(ports) == ATTEMPTS


@pytest.mark.process
def test_a_port_that_was_taken_meanwhile_is_replaced(tmp_path: Path) -> None:
    attempts = []

    def second_time_lucky(port: int) -> Sequence[str]:
        attempts.append(port)
        return echo(port) if len(attempts) > 1 else ["-c", "raise SystemExit('in use')"]

    with closing(Server(PYTHON, second_time_lucky, tmp_path)) as server:
        assert server.port == attempts[-1]
        server.connect().close()


@pytest.mark.process
def test_a_server_that_ignores_the_request_to_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "STOP_S", 0.05)
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ECHO

    def command(port: int) -> Sequence[str]:
        return ["-c", stubborn, str(port)]

    Server(PYTHON, command, tmp_path).close()


def make_program(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "some-server"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path
