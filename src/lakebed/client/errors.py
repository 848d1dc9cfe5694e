"""Errors of the connection to a store."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class BadAnswer(LakebedError):
    """The response is not from a store of this version. The outcome of the call is unknown."""


class Failure(Exception):
    """No response was received. `caller` reports it as `Unreachable`.

    `is_sent`: the server may have received the request. `heals`: a retry may succeed.
    """

    def __init__(self, why: str, *, is_sent: bool, heals: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent
        self.heals = heals
