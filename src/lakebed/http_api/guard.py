"""Authenticates requests before their handlers run."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from lakebed.http.request import Request


class Identity(NamedTuple):
    """The authenticated sender of a request.

    `inflight_max` is the limit of concurrent requests for its access key; None means the default.
    """

    access_key: str
    inflight_max: int | None = None
    is_exempt: bool = False  # from the limit per access key


class Guard(Protocol):
    async def identify(self, request: Request) -> Identity:
        """Returns the sender of the request. Raises `Unauthenticated` if its credentials are
        missing or not valid."""
        ...


LOCAL: Final = Identity("", is_exempt=True)


class TrustingGuard:
    """Accepts every request. Used for the local socket, which file permissions protect."""

    async def identify(self, request: Request) -> Identity:  # noqa: ARG002
        return LOCAL
