"""What may go wrong on the way to a store, before it is told to whoever called."""

from __future__ import annotations

from lakebed.base.errors import LakebedError


class BadAnswer(LakebedError):
    """The response is not from a store of this version. The outcome of the call is unknown."""


class Failure(Exception):
    """An exchange that brought no answer; the caller tells it as `Unreachable`.

    `is_sent`: the server may have got the request. `heals`: it may be better in a moment.
    """

    def __init__(self, why: str, *, is_sent: bool, heals: bool = True) -> None:
        super().__init__(why)
        self.is_sent = is_sent
        self.heals = heals
