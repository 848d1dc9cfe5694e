"""Clients of a store's socket, as plain as they can be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from lakebed.host.local_server import SOCKET_NAME
from lakebed.http.local_socket import connect

GIVE_UP_S = 60


class Client(HTTPConnection):
    def __init__(self, root: Path) -> None:
        super().__init__("localhost", timeout=GIVE_UP_S)
        self._path = root / SOCKET_NAME

    def connect(self) -> None:
        self.sock = connect(self._path, timeout_s=GIVE_UP_S)

    def ask(self, method: str, path: str, document: object = None) -> Any:
        """What came back; an answer that is no success is an `AssertionError`."""
        body = None if document is None else json.dumps(document)
        self.request(method, path, body, {"Content-Type": "application/json"})
        answer = self.getresponse()
        data = answer.read()
        assert answer.status < 400, data
        return json.loads(data) if data else None

    def begin_append(self, log: str) -> None:
        """One record of two has come; the second is owed."""
        self.putrequest("POST", f"/v1/logs/{log}/records")
        self.putheader("Content-Type", "application/x-ndjson")
        self.putheader("Transfer-Encoding", "chunked")
        self.endheaders()
        self.send(b"6\r\nfirst\n\r\n")

    def end_append(self) -> int:
        """The status."""
        self.send(b"7\r\nsecond\n\r\n0\r\n\r\n")
        answer = self.getresponse()
        answer.read()
        return answer.status

    def is_ended_by_the_other(self) -> bool:
        """Wait for what comes next: whether it is the end."""
        assert self.sock is not None
        try:
            return not self.sock.recv(1)
        except ConnectionResetError:
            return True


def until(is_so: Callable[[], object]) -> None:
    while not is_so():
        os.sched_yield()


def requests_under_way(client: Client) -> int:
    """That of asking included."""
    found: int = client.ask("GET", "/v1/counters")["counters"]["door"]["now"]["requests"]
    return found


def is_refused(root: Path) -> bool:
    try:
        connect(root / SOCKET_NAME).close()
    except OSError:
        return True
    return False


def socket_descriptors() -> list[str]:
    """Of this process, by what they are."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # that of the listing itself
            continue
    return [one for one in found if one.startswith("socket:")]
