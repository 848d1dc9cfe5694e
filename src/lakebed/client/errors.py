"""Errors of the connection to a store."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class BadAnswer(LakebedError):
    """The response is not from a Lakebed server of this version.

    The outcome of the call is unknown.
    """


class Failure(Exception):
    """A request got no response. `Caller` reports it as `Unreachable`.

    `is_sent`: whether the server may have received the request. `heals`: whether a retry may
    succeed.
    """

    def __init__(self, why: str, *, is_sent: bool, heals: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent
        self.heals = heals
