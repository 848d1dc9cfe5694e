"""Conditions of a read, or of the source of a copy, as HTTP decides them.

`If-Match` is looked at before `If-Unmodified-Since` and replaces it, `If-None-Match` before
`If-Modified-Since`. Times are compared in whole seconds: that is what the headers tell.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.errors import InputError
from lakebed.seglake.errors import PreconditionFailed

_MS_PER_S = 1000


class NotModified(InputError):
    """The caller has the object already."""


@dataclass(frozen=True, kw_only=True)
class ReadCondition:
    """ETags without quotes; "*" is any of them."""

    if_match: tuple[str, ...] = ()
    if_none_match: tuple[str, ...] = ()
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None

    def check(self, *, etag: str, modified_ms: int) -> None:
        """`PreconditionFailed` or `NotModified`, if the object is not as it should be."""
        modified_s = modified_ms // _MS_PER_S
        if self.if_match:
            if not _has(self.if_match, etag):
                raise PreconditionFailed(f"the ETag is {etag}: If-Match does not hold")
        elif modified_s > _seconds(self.if_unmodified_since_ms, otherwise=modified_s):
            raise PreconditionFailed("modified since: If-Unmodified-Since does not hold")
        if self.if_none_match:
            if _has(self.if_none_match, etag):
                raise NotModified("the ETag is the one the caller has")
        elif modified_s <= _seconds(self.if_modified_since_ms, otherwise=modified_s - 1):
            raise NotModified("not modified since")


def _seconds(moment_ms: int | None, *, otherwise: int) -> int:
    return otherwise if moment_ms is None else moment_ms // _MS_PER_S


def _has(etags: tuple[str, ...], etag: str) -> bool:
    return "*" in etags or etag in etags
