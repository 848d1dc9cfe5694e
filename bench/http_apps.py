"""One small application on each HTTP server: `python bench/http_apps.py SERVER PORT` runs it.

A GET is answered with 1 KiB, a PUT when its body was read to the end, and `GET /cpu` with the
seconds of CPU time that the process used so far.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

BODY = b"x" * 1024
HOST = "127.0.0.1"
CPU_PATH = "/cpu"


def _cpu() -> bytes:
    return str(time.process_time()).encode()


# The application, as each server wants it.


async def asgi_app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = b""
    if scope["method"] == "PUT":
        while (await receive()).get("more_body"):
            pass
    else:
        body = _cpu() if scope["path"] == CPU_PATH else BODY
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def rsgi_app(scope: Any, protocol: Any) -> None:
    headers = [("content-type", "text/plain")]
    if scope.method == "PUT":
        async for _ in protocol:
            pass
        protocol.response_empty(200, headers)
        return
    body = _cpu() if scope.path == CPU_PATH else BODY
    protocol.response_bytes(200, headers, body)


def lakebed_app() -> Callable[[Any], Any]:
    from lakebed.http.request import Request
    from lakebed.http.response import Response

    headers = [("Content-Type", "text/plain")]

    async def drain(request: Request) -> Response:
        async for _ in request.body:
            pass
        return Response(200, headers)

    def handler(request: Request) -> Any:
        if request.body.whole is None:
            return drain(request)
        if request.method == "PUT":
            return Response(200, headers)
        return Response(200, headers, BODY if request.raw_path != b"/cpu" else _cpu())

    return handler


# The servers, one process each.


def run_lakebed(port: int) -> None:
    import uvloop

    from lakebed.http.server import Server

    async def serve() -> None:
        await Server(lakebed_app()).listen(HOST, port)
        await asyncio.Event().wait()

    uvloop.run(serve())


def run_uvicorn(port: int) -> None:
    import uvicorn

    uvicorn.run(
        asgi_app,
        host=HOST,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )


def run_granian(port: int) -> None:
    from granian import Granian
    from granian.constants import Interfaces, Loops

    Granian(
        "http_apps:rsgi_app",
        address=HOST,
        port=port,
        interface=Interfaces.RSGI,
        loop=Loops.uvloop,
        websockets=False,
        log_enabled=False,
    ).serve()


SERVERS = {"lakebed": run_lakebed, "uvicorn": run_uvicorn, "granian": run_granian}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]))
