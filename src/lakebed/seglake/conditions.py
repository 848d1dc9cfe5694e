"""The conditions of a read, or on the source of a copy, evaluated as HTTP defines them.

`If-Match` overrides `If-Unmodified-Since`, and `If-None-Match` overrides `If-Modified-Since`.
Times are compared in whole seconds, the resolution of the headers.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.errors import InputError
from lakebed.seglake.errors import PreconditionFailed

_MS_PER_S = 1000


class NotModified(InputError):
    """The object did not change: its ETag matches If-None-Match, or it was not modified after the
    If-Modified-Since time.
    """


@dataclass(frozen=True, kw_only=True)
class ReadCondition:
    """The conditions of a read request. ETags have no quotes; "*" matches any ETag."""

    if_match: tuple[str, ...] = ()
    if_none_match: tuple[str, ...] = ()
    if_modified_since_ms: int | None = None
    if_unmodified_since_ms: int | None = None

    def check(self, *, etag: str, modified_ms: int) -> None:
        """Raises `PreconditionFailed` or `NotModified` if the object does not meet a condition."""
        modified_s = modified_ms // _MS_PER_S
        if self.if_match:
            if not _has(self.if_match, etag):
                raise PreconditionFailed(f"If-Match does not match: the object's ETag is {etag}")
        elif modified_s > _seconds(self.if_unmodified_since_ms, otherwise=modified_s):
            raise PreconditionFailed("the object was modified after the If-Unmodified-Since time")
        if self.if_none_match:
            if _has(self.if_none_match, etag):
                raise NotModified(f"If-None-Match matches: the object's ETag is {etag}")
        elif modified_s <= _seconds(self.if_modified_since_ms, otherwise=modified_s - 1):
            raise NotModified("the object was not modified after the If-Modified-Since time")


def _seconds(moment_ms: int | None, *, otherwise: int) -> int:
    return otherwise if moment_ms is None else moment_ms // _MS_PER_S


def _has(etags: tuple[str, ...], etag: str) -> bool:
    return "*" in etags or etag in etags
