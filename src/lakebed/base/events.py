"""Structured log events through the standard `logging` module: an event name and its fields.

    event(_log, "segment_sealed", log="orders", segment_id=3)

A plain handler prints `segment_sealed log=orders segment_id=3`. A structured handler finds the name
in `record.event` and the fields in `record.facts`.
"""

from __future__ import annotations

import logging

from lakebed.base.clock import Clock


def event(
    logger: logging.Logger, name: str, /, *, level: int = logging.INFO, **facts: object
) -> None:
    """Logs an event with its fields. Costs almost nothing if the level is disabled."""
    if logger.isEnabledFor(level):
        text = " ".join([name, *(f"{key}={value}" for key, value in facts.items())])
        logger.log(level, "%s", text, extra={"event": name, "facts": facts})


class RareEvent:
    """An event that may occur often, but is logged at most once per `every_ns`.

    Each log line has the number of occurrences (`left_out`) that were not logged since the previous
    line. Not thread-safe.
    """

    def __init__(
        self, logger: logging.Logger, name: str, *, level: int, clock: Clock, every_ns: int
    ) -> None:
        self._logger = logger
        self._name = name
        self._level = level
        self._clock = clock
        self._every_ns = every_ns
        self._next_ns: int | None = None
        self._left_out = 0

    def note(self, **facts: object) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._next_ns is not None and now_ns < self._next_ns:
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        self._next_ns = now_ns + self._every_ns
        event(self._logger, self._name, level=self._level, **facts, left_out=left_out)

    def reset(self) -> None:
        """Makes the next occurrence be logged, however soon it is. Call this when the condition
        that causes the event has ended.
        """
        self._next_ns = None
