"""A job that is a function of the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class FunctionJob(NamedTuple):
    """A `lakebed.api.jobs.JobKind`."""

    run: Callable[..., dict[str, Any]]
