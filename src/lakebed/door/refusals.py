"""What is logged of requests that are refused: a line a second at most.

Under a flood of them a line says how many were left out since the one before.
"""

from __future__ import annotations

import logging

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.events import event

_log = logging.getLogger(__name__)


class Refusals:
    """Of one kind, which the event's name tells. In the loop's thread."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._last_s: int | None = None
        self._left_out = 0

    def note(self, **facts: object) -> None:
        now_s = self._clock.monotonic_ns() // NS_PER_S
        if now_s == self._last_s:
            self._left_out += 1
            return
        left_out, self._left_out, self._last_s = self._left_out, 0, now_s
        event(_log, self._name, level=logging.WARNING, **facts, left_out=left_out)
