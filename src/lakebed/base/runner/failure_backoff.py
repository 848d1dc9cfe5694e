"""The state of background work that is retried when it fails: its last error, and the delay until
the next try.

An error is logged once, and again only when a different one replaces it. The delay doubles with
every failure and starts over after a success.
"""

from __future__ import annotations

import logging
from typing import Any

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import Busy, LakebedError, RetryError
from lakebed.base.events import event

RETRY_NS_FIRST = 5 * NS_PER_MS
RETRY_NS_MAX = 250 * NS_PER_MS
"""Of an error that waiting alone may end."""
FAULT_RETRY_NS_MAX = 30 * NS_PER_S
"""Of any other: damage, a disk that refuses, a mistake of ours."""

_log = logging.getLogger(__name__)


class FailureBackoff:
    """Belongs to one piece of work and is used by its thread; any thread may read `error`."""

    def __init__(self, *, task: str, of: object) -> None:
        self._facts: dict[str, Any] = {"task": task, "of": of}
        self._delay_ns = 0
        self._logged = ""
        self.error: Exception | None = None

    def failed(self, error: Exception) -> int:
        """Records the error and returns the ns until the next try."""
        self.error = error
        longest_ns = RETRY_NS_MAX if isinstance(error, RetryError) else FAULT_RETRY_NS_MAX
        self._delay_ns = min(2 * self._delay_ns or RETRY_NS_FIRST, longest_ns)
        if not isinstance(error, Busy) and repr(error) != self._logged:  # a queue gets room again
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
