"""Servers that peers need: found here, started in a folder of their own, stopped with the row.

A server listens on a loopback port that was free a moment before; should another process take it
first, the server is started again with another one. What it prints goes to `<folder>/<name>.log`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.row import Unavailable

HOST = "127.0.0.1"
START_S = 60.0
STOP_S = 30.0
ATTEMPTS = 3
POLL_S = 0.005

Command = Callable[[int], Sequence[str]]
"""The arguments behind the program's name, for a port."""


class NotStarted(Exception):
    """The server ended before it listened; the message has the end of what it printed."""


class Server:
    """A process that answers on `port`. Whatever it holds in `folder` outlives it."""

    def __init__(
        self,
        name: str,
        command: Command,
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is added to this process's own."""
        self._program = find_program(name)
        self._environment = {**os.environ, **(environment or {})}
        self._log_path = folder / f"{name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start(command, folder)
                return
            except NotStarted:
                if attempt == ATTEMPTS:
                    raise

    def connect(self) -> socket.socket:
        return connect(self.port)

    def close(self) -> None:
        """Ask it to end, and make it end."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _start(self, command: Command, folder: Path) -> None:
        self.port = free_port()
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [self._program, *command(self.port)],
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_it_listens()
        except BaseException:
            self.close()
            raise

    def _wait_until_it_listens(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                self.connect().close()
                return
            time.sleep(POLL_S)
        printed = self._log_path.read_text(errors="replace")[-1000:]
        raise NotStarted(f"{self._program} did not start: {printed}")


def connect(port: int) -> socket.socket:
    """To a server that is there."""
    connection = socket.create_connection((HOST, port), timeout=START_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def find_program(name: str) -> str:
    """The one that a package brought along, or else the system's."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise Unavailable(f"no {name} here")
    return found


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
