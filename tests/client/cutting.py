"""A proxy before a Unix socket that cuts answers, at the byte that it is told."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

GIVE_UP_S = 30


class CuttingProxy:
    """Passes on requests whole. `cuts` says after how many bytes of the answer the next
    connections end; None, or no more to say: not at all."""

    def __init__(self, target: str, path: str) -> None:
        self.path = path
        self.cuts: list[int | None] = []
        self.cut_count = 0
        self._target = target
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen(100)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        os.unlink(self.path)
        for thread in self._threads:
            thread.join(GIVE_UP_S)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        cut = self.cuts.pop(0) if self.cuts else None
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._target)
            up = threading.Thread(target=_pump, args=(client, server), daemon=True)
            up.start()
            with contextlib.suppress(OSError):
                if cut is None:
                    _pump(server, client)
                else:
                    self._pass_some(server, client, cut)
            for one in (client, server):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            up.join(GIVE_UP_S)

    def _pass_some(self, server: socket.socket, client: socket.socket, cut: int) -> None:
        """The answer has begun, so the call was carried out."""
        data = b""
        while len(data) < max(cut, 1):
            piece = server.recv(1 << 16)
            if not piece:
                break
            data += piece
        client.sendall(data[:cut])
        self.cut_count += 1


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cutting(target: str, path: str) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(target, path)
    try:
        yield proxy
    finally:
        proxy.close()
