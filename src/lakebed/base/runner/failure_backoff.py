"""Retries of background work: keeps the last error, logs it, and computes the next delay.

An error that repeats is logged only once. `Busy` is never logged. The delay doubles with every
failure up to a maximum, and a success resets it.
"""

from __future__ import annotations

import logging
from typing import Any

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Busy, LakebedError, RetryError
from lakebed.base.events import event

RETRY_NS_FIRST = 5 * NS_PER_MS
RETRY_NS_MAX = 250 * NS_PER_MS
"""The maximum delay after a `RetryError`, which waiting may resolve."""
FAULT_RETRY_NS_MAX = 30 * NS_PER_S
"""The maximum delay after any other error, such as damage, a disk failure or a bug."""

_log = logging.getLogger(__name__)


class FailureBackoff:
    """The last error of one piece of background work, and the delay until its next attempt. Only
    the thread of that work may call the methods; any thread may read `error`.
    """

    def __init__(self, *, task: str, of: object) -> None:
        self._facts: dict[str, Any] = {"task": task, "of": of}
        self._delay_ns = 0
        self._logged = ""
        self.error: Exception | None = None

    def failed(self, error: Exception) -> int:
        """Records a failure and returns the delay until the next attempt, in ns."""
        self.error = error
        longest_ns = RETRY_NS_MAX if isinstance(error, RetryError) else FAULT_RETRY_NS_MAX
        self._delay_ns = min(2 * self._delay_ns or RETRY_NS_FIRST, longest_ns)
        if (
            not isinstance(error, Busy) and repr(error) != self._logged
        ):  # a full queue is not worth a log line
            self._logged = repr(error)
            level = logging.ERROR
            event(_log, "background_work_failed", level=level, **self._facts, error=error)
            if not isinstance(error, LakebedError):
                _log.error("an unexpected error in %s", self._facts["task"], exc_info=error)
        return self._delay_ns

    def succeeded(self) -> None:
        if self.error is None:
            return
        self.error = None
        self._delay_ns = 0
        if self._logged:
            self._logged = ""
            event(_log, "background_work_recovered", **self._facts)
