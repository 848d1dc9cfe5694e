"""Requests as the server hands them on, and the keys and clocks to check them with."""

from __future__ import annotations

import calendar
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSRequest

from lakebed.base.clock import NS_PER_S
from lakebed.base.simulation.clock import SimulatedClock
from lakebed.http.request import Request
from lakebed.s3.auth.authenticator import Authenticator
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.key_ring import Credentials, KeyRing

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - Amazon's example
CREDENTIALS = Credentials(ACCESS_KEY, SECRET)
AT = "20130524T000000Z"  # when Amazon's examples were signed
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class HeldBody:
    """A body that came along with the head."""

    def __init__(self, data: bytes) -> None:
        self.length: int | None = len(data)
        self.whole: bytes | None = data

    async def read(self) -> bytes:
        data, self.whole = self.whole or b"", b""
        return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield await self.read()


def made_request(
    method: str = "GET",
    target: bytes | str = "/",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes = b"",
) -> Request:
    """As it comes from a client that sends just this."""
    raw = target.encode() if isinstance(target, str) else target
    path, _, query = raw.partition(b"?")
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
    joined: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        joined[lower] = f"{joined[lower]},{value}" if lower in joined else value
    return Request(
        method=method,
        raw_path=path,
        raw_query=query,
        version="1.1",
        fields=fields,
        headers=joined,
        body=HeldBody(body),
        request_id="0" * 16,
        peer="",
        is_secure=False,
        received_ns=0,
    )


def as_sent(signed: AWSRequest) -> Request:
    """What botocore would put on the wire."""
    prepared = signed.prepare()
    parts = urlsplit(prepared.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = {name.lower(): _text(value) for name, value in prepared.headers.items()}
    headers.setdefault("host", parts.netloc)
    return made_request(prepared.method, target, headers, prepared.body or b"")


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def clock_at(timestamp: str = AT, *, plus_s: int = 0) -> SimulatedClock:
    wall_s = calendar.timegm(time.strptime(timestamp, "%Y%m%dT%H%M%SZ")) + plus_s
    clock = SimulatedClock()
    clock.skew(wall_s * NS_PER_S - clock.wall_ns())
    return clock


def authenticator(
    timestamp: str = AT, *, plus_s: int = 0, keys: KeyRing | None = None, **settings: Any
) -> Authenticator:
    return Authenticator(
        keys or KeyRing(CREDENTIALS),
        config=EndpointConfig(**settings),
        clock=clock_at(timestamp, plus_s=plus_s),
    )
