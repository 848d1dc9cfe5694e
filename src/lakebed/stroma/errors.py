"""What a group refuses beyond the errors that all engines share."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.base.errors import InputError


class StaleLease(InputError):
    """The caller does not hold these messages: its lease has ended, or it never had one.

    A lease also ends when its topic or group is deleted, even if one of the same name is created.

    Nothing was changed. `ranges` are the messages that the caller does not hold.
    """

    def __init__(
        self,
        ranges: Sequence[tuple[int, int]],
        *,
        epoch: int,
        why: str = "the lease has ended",
    ) -> None:
        start, end = ranges[0]
        what = f"message {start} is" if end == start + 1 else f"messages {start} to {end - 1} are"
        more = "" if len(ranges) == 1 else f" (nor are {len(ranges) - 1} more ranges)"
        super().__init__(f"{what} not leased under epoch {epoch}{more}: {why}")
        self.ranges = tuple(ranges)
        self.epoch = epoch
