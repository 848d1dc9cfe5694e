"""Requests that no client sent."""

from __future__ import annotations

from lakebed.http.body import WholeBody
from lakebed.http.request import Request


def request_of(path: str, *, peer: str = "127.0.0.1", **headers: str) -> Request:
    """`headers` with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(
        method="GET",
        raw_path=path.encode(),
        raw_query=b"",
        version="1.1",
        fields=[(name.encode(), value.encode()) for name, value in named.items()],
        headers=named,
        body=WholeBody(b""),
        request_id="0123456789ABCDEF",
        peer=peer,
        is_secure=False,
        received_ns=0,
    )
