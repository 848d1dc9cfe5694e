"""The endpoint on a socket in the loop of a test, and requests to it, byte by byte.

Its clocks stand still: the one that signatures are compared with at the time they were made, and
the one of the timers until a test moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from lakebed.http.limits import Limits
from lakebed.s3.app import App
from lakebed.s3.service import Service
from lakebed.seglake.key_ring import KeyRing, KnownKey
from tests.http.serving import Answer, Client, Serving, serving
from tests.s3.auth.reference_signer import signed_by_header
from tests.s3.auth.signed_requests import CREDENTIALS, clock_at
from tests.s3.calls import open_service

BUCKET = "bucket"
HANGS_S = 30


class Wire:
    def __init__(self, served: Serving, service: Service) -> None:
        self.served = served
        self.service = service

    async def connect(self) -> Client:
        return await self.served.connect()

    async def exchange(self, data: bytes) -> bytes:
        """All that comes back to a client that sends this, says that it is all, and waits."""
        client = await self.served.connect()
        try:
            client.send_bytes(data)
            if client.writer.can_write_eof():
                client.writer.write_eof()
            return await asyncio.wait_for(client.rest(), HANGS_S)
        except ConnectionError:
            return b""
        finally:
            await client.close()
            self.served.clients.remove(client)

    async def ask(self, data: bytes) -> Answer:
        """The answer to one request, on a connection of its own."""
        client = await self.served.connect()
        client.send_bytes(data)
        answer = await asyncio.wait_for(
            client.answer(has_body=not data.startswith(b"HEAD ")), HANGS_S
        )
        await client.close()
        self.served.clients.remove(client)
        return answer


@asynccontextmanager
async def s3_wire(
    root: Path,
    *,
    limits: Limits | None = None,
    inflight_max: int | None = None,
    **settings: Any,
) -> AsyncIterator[Wire]:
    """`settings` are the lake's. The bucket is there. Requests are signed with the first
    credentials, or with `inflight_max` by a key that may have so many of them in flight."""
    with open_service(root, **settings) as opened:
        service = Service(
            lake=opened.lake, config=opened.config, clock=clock_at(), executor=opened.executor
        )
        service.lake.buckets.create(BUCKET)
        ring = KeyRing(CREDENTIALS if inflight_max is None else None)
        if inflight_max is not None:
            known = KnownKey(CREDENTIALS.secret, is_first=False, inflight_max=inflight_max)
            ring.remember(CREDENTIALS.access_key, known, generation=ring.generation)
        app = App(service, ring)
        async with serving(app, limits=limits, on_refusal=app.refusal) as served:
            yield Wire(served, service)


def signed_request(
    method: str,
    path: bytes,
    *,
    query: Sequence[tuple[bytes, bytes]] = (),
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    payload: str | None = None,
    length: int | None = None,
) -> bytes:
    """`payload` is what is said of the body, else its hash; `length` is told, else its own."""
    said = sha256(body).hexdigest() if payload is None else payload
    signed = signed_by_header(method, path, query, headers, said)
    lines = [method.encode() + b" " + signed.target + b" HTTP/1.1"]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in signed.headers.items()]
    told = len(body) if length is None else length
    if told or method in ("PUT", "POST"):
        lines.append(b"content-length: %d" % told)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def error_code(answer: Answer) -> str:
    """Of an answer that tells an error as S3 does: with a request id, in a document."""
    assert answer.headers["content-type"] == "application/xml", answer
    told = ET.fromstring(answer.body)  # noqa: S314 - we wrote it
    assert told.tag == "Error", answer
    assert told.findtext("RequestId") == answer.headers["x-amz-request-id"], answer
    code = told.findtext("Code")
    assert code, answer
    return code
