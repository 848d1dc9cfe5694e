"""An HTTP server that answers as it is told to: for the failures that no real store makes on
demand.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    body: str = ""
    length: int | None = None  # stated, if another than the body's
    is_silent: bool = False  # nothing at all, until the client gives up


class CannedServer:
    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[str] = []
        self.released = threading.Event()
        self.endpoint = ""


@contextlib.contextmanager
def canned_server(answer: Answer) -> Iterator[CannedServer]:
    """Gives every request the same answer."""
    canned = CannedServer(answer)

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            canned.requests.append(f"{self.command} {self.path}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if canned.answer.is_silent:
                canned.released.wait()
                return
            body = canned.answer.body.encode()
            length = len(body) if canned.answer.length is None else canned.answer.length
            self.send_response(canned.answer.status)
            self.send_header("Content-Length", str(length))
            self.send_header("Content-Range", f"bytes 0-{length - 1}/{length}")
            self.send_header("Last-Modified", "Fri, 01 Nov 2024 12:00:00 GMT")
            self.send_header("ETag", '"x"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = reply  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Into no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    canned.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield canned
    finally:
        canned.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
