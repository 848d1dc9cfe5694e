"""The rules that protect buckets, checked for every write, whichever API it came through.

- A reserved bucket belongs to a part of the store itself, for example to the logs, which keep cold
  segments in it. Any caller can list and read it, but only its owner can change it, by passing
  `as_owner`.
- In the buckets of `require_if_match_buckets`, a request can overwrite an object only with the
  condition `If-Match`. Writes with `as_owner` are exempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebed.base.errors import InputError
from lakebed.base.units import shown
from lakebed.seglake.config import ALL_BUCKETS
from lakebed.seglake.errors import ReservedBucket
from lakebed.seglake.model import Condition

_ANY: Final = "*"
_IF_ABSENT: Final = Condition(if_none_match=_ANY)


class BucketGuard:
    """Checks the rules that protect buckets."""

    def __init__(
        self, *, reserved: Iterable[str] = (), if_match_buckets: Iterable[str] = ()
    ) -> None:
        """`reserved` are the names of reserved buckets.

        `if_match_buckets` are the names of the buckets where overwriting an object needs
        `If-Match`; `ALL_BUCKETS` means all buckets.
        """
        self._reserved = frozenset(reserved)
        self._if_match = frozenset(if_match_buckets)

    def check_change(self, bucket: str, *, as_owner: bool = False) -> None:
        """Raises `ReservedBucket` if the bucket is reserved and the caller is not its owner."""
        if bucket in self._reserved and not as_owner:
            raise ReservedBucket(
                f"bucket {shown(bucket)} is read-only: it holds cold log segments of this store"
            )

    def write_condition(
        self, bucket: str, condition: Condition, *, as_owner: bool = False
    ) -> Condition:
        """Returns the condition that a write must meet, which is normally `condition`.

        If the bucket requires If-Match and `condition` is empty, returns the condition that no
        object with the key exists, unless the caller is the owner (`as_owner`).
        Raises `ReservedBucket` if the bucket is reserved and the caller is not its owner, and
        `InputError` if the condition's `if_none_match` is given and is not "*".
        """
        if condition.if_none_match not in (None, _ANY):
            raise InputError('the If-None-Match condition of a write must be "*"')
        self.check_change(bucket, as_owner=as_owner)
        if condition.is_given or as_owner or self._if_match.isdisjoint((ALL_BUCKETS, bucket)):
            return condition
        return _IF_ABSENT
