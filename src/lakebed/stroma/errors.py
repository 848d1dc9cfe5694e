"""The errors of consumer groups, in addition to those of `lakebed.base`."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.base.errors import InputError


class StaleLease(InputError):
    """The caller does not hold all of the messages: its lease has ended, or it never had one.

    A lease also ends when its topic or its group is deleted, even if a new one with the same name
    is created, and when the store is restored from a backup.

    `ranges` are the messages that the caller does not hold. None of the messages that were to be
    changed together with them was changed, not even those that the caller does hold. A call on
    several leases changes one lease after another: earlier leases may have been changed.
    """

    def __init__(
        self,
        ranges: Sequence[tuple[int, int]],
        *,
        epoch: int,
        why: str = "the lease has ended, or there never was such a lease",
    ) -> None:
        start, end = ranges[0]
        messages = (
            f"message {start} is" if end == start + 1 else f"messages {start} to {end - 1} are"
        )
        more = "" if len(ranges) == 1 else f" (and {len(ranges) - 1} more ranges are not)"
        super().__init__(f"{messages} not leased under epoch {epoch}{more}: {why}")
        self.ranges = tuple(ranges)
        self.epoch = epoch
