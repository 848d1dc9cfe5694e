"""Who asks: made sure of before anything of a request's body is read."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from lakebed.http.request import Request


class Identity(NamedTuple):
    """`inflight_max`: so many requests at a time; None: as many as any access key may have."""

    access_key: str
    inflight_max: int | None = None
    is_exempt: bool = False  # from the limit of one access key


class Guard(Protocol):
    async def identify(self, request: Request) -> Identity:
        """`Unauthenticated` if it is nobody who may ask."""
        ...


LOCAL: Final = Identity("", is_exempt=True)


class TrustingGuard:
    """For the local socket: who may use its file may ask."""

    async def identify(self, request: Request) -> Identity:  # noqa: ARG002
        return LOCAL
