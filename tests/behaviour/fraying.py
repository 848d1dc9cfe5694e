"""A proxy on which connections do not last: each ends at some byte, of what is sent or answered.

    proxy = FrayingProxy(server, ("127.0.0.1", 0), random=Random(seed), bytes_max=6_000)
    with fraying(proxy):
        proxy.address

Two connections of three end within or after an answer, the third within a request; the random
number says at which byte. TLS is cut without being read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from random import Random

from tests.client.cutting import GIVE_UP_S

Address = tuple[str, int] | str  # of TCP, or the path of a socket

_PIECE_BYTES = 1 << 16


class FrayingProxy:
    """Listens from when it is made until it is closed. Thread-safe."""

    def __init__(
        self, target: Address, address: Address, *, random: Random, bytes_max: int
    ) -> None:
        self._target = target
        self._random = random
        self._bytes_max = bytes_max
        self._listening = socket.socket(_family(address))
        self._listening.bind(address)
        self._listening.listen(1000)
        self.address: Address = self._listening.getsockname()
        self.cuts = {"request": 0, "answer": 0}
        self._kinds = itertools.cycle(["answer", "request", "answer"])
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        if isinstance(self.address, str):
            os.unlink(self.address)
        for thread in self._threads:
            thread.join(GIVE_UP_S)

    def _start(self, work: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        kind = next(self._kinds)
        limit = self._random.randrange(self._bytes_max)
        limits = {"request": 1 << 60, "answer": 1 << 60, kind: limit}
        with client, socket.socket(_family(self._target)) as server:
            server.connect(self._target)
            up = self._start(self._pump, client, server, "request", limits["request"])
            self._pump(server, client, "answer", limits["answer"])
            up.join(GIVE_UP_S)

    def _pump(self, source: socket.socket, target: socket.socket, kind: str, limit: int) -> None:
        """Until the limit, or the end of one of both: then it is the end of the other, too."""
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if len(piece) > limit:
                    target.sendall(piece[:limit])
                    self.cuts[kind] += 1
                    break
                target.sendall(piece)
                limit -= len(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _family(address: Address) -> int:
    return socket.AF_UNIX if isinstance(address, str) else socket.AF_INET


@contextlib.contextmanager
def fraying(proxy: FrayingProxy) -> Iterator[FrayingProxy]:
    try:
        yield proxy
    finally:
        proxy.close()
