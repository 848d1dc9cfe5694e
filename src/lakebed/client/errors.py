"""Errors of the connection to a store."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class BadAnswer(LakebedError):
    """The response is not one that a Lakebed server of this version sends. The outcome of the call
    is unknown.
    """


class Failure(Exception):
    """A request got no complete response. `Caller` reports this as `Unreachable`.

    `is_sent`: whether the server may have received the request. `heals`: whether a retry may
    succeed.
    """

    def __init__(self, why: str, *, is_sent: bool, heals: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent
        self.heals = heals
