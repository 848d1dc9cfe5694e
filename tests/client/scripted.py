"""A server that does what a test says, answer by answer; and a clock that waits for nobody."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from lakebed.api import media
from lakebed.api.problems import problem_of
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError
from lakebed.base.runner import ThreadRunner

GIVE_UP_S = 30


class ManualClock:
    def __init__(self) -> None:
        self.now_ns = 1_000 * NS_PER_S

    def wall_ns(self) -> int:
        return self.now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns


class HastyRunner(ThreadRunner):
    """Sleeping moves the clock, and is written down."""

    def __init__(self) -> None:
        self.manual = ManualClock()
        self.slept_s: list[float] = []
        super().__init__(clock=self.manual)

    def sleep_ns(self, duration_ns: int) -> None:
        self.slept_s.append(duration_ns / NS_PER_S)
        self.manual.now_ns += duration_ns


class Seen(NamedTuple):
    """A request, as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


Act = Callable[[socket.socket], bool]
"""Answers; whether the connection is kept."""


def says(data: bytes, *, keeps: bool = True) -> Act:
    def act(sock: socket.socket) -> bool:
        sock.sendall(data)
        return keeps

    return act


def hangs_up(sock: socket.socket) -> bool:
    return False


def document(value: object, *, status: int = 200) -> bytes:
    """An answer as an HTTP API gives it."""
    return answer(media.encode(value, media.MSGPACK), media.MSGPACK, status=status)


def answer(body: bytes, kind: str, *, status: int = 200, headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status} Fine", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


def problem(error: LakebedError, *, retry_after_s: int | None = None) -> bytes:
    told = problem_of(error)
    headers = [] if retry_after_s is None else [f"Retry-After: {retry_after_s}"]
    body = msgspec.json.encode(told)
    return answer(body, media.PROBLEM, status=told["status"], headers=headers)


class ScriptedServer:
    """One act a request, in order; behind the last one every connection is closed."""

    def __init__(self, acts: Sequence[Act], listening: socket.socket) -> None:
        self._acts = list(acts)
        self._listening = listening
        self._listening.settimeout(GIVE_UP_S)
        self._mutex = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self.tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        self._start(self._accept)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(GIVE_UP_S)

    def hang_up(self) -> None:
        """On all clients."""
        with self._mutex:
            sockets, self._sockets = self._sockets, []
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with self._mutex:
                self._sockets.append(sock)
            sock.settimeout(GIVE_UP_S)
            with sock.makefile("rb") as file:
                while (seen := _request(file)) is not None:
                    with self._mutex:
                        self.seen.append(seen)
                        act = self._acts.pop(0) if self._acts else hangs_up
                    if not act(sock):
                        break
        except (OSError, ValueError):  # a request that ends in the middle
            pass
        finally:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


def _request(file: Any) -> Seen | None:
    line = file.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (header := file.readline().strip()) != b"":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(file.readline(), 16):
            body += file.read(size)
            file.readline()
        file.readline()
    else:
        body = file.read(int(headers.get("content-length", "0")))
    return Seen(line.decode("latin-1").strip(), headers, body)


@contextlib.contextmanager
def scripted(
    *acts: Act, path: str | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """On a Unix socket, or on a port of localhost."""
    if path is not None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen(100)
    else:
        listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    server = ScriptedServer(acts, listening)
    server.tls = tls
    server.start()
    try:
        yield server
    finally:
        server.stop()
