# Made by `python -m tools.asynced` of `src/lakebed/client/jobs.py`: edit that.
"""Starts a job in a store that another process has open, and waits for its end."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from lakebed.aio.client.caller import Caller
from lakebed.api import admin as wire
from lakebed.api.problems import error_of
from lakebed.base.errors import Busy, LakebedError
from lakebed.base.progress import Progress, no_progress

_WAIT_MS = 500  # between two looks at how far it is


async def run_job(
    caller: Caller, kind: str, arguments: Mapping[str, Any], progress: Progress = no_progress
) -> dict[str, Any]:
    """Returns its result, or raises what it failed with. An interrupted caller cancels it."""
    body = wire.StartJob(kind=kind, arguments=dict(arguments))
    state = await caller.call(wire.START_WORK, body=body)
    names = {"work": state.work_id}
    try:
        while state.state == "running":
            progress(state.done, state.total)
            query = wire.WaitQuery(wait_ms=_WAIT_MS)
            state = await caller.call(wire.GET_WORK, names, query=query, wait_s=_WAIT_MS / 1000)
    except LakebedError:
        raise
    except BaseException:
        with contextlib.suppress(LakebedError):
            await caller.call(wire.CANCEL_WORK, names)
        raise
    progress(state.done, state.total)
    return _outcome(state)


def _outcome(state: wire.JobState) -> dict[str, Any]:
    if state.state == "done":
        return state.result or {}
    if state.problem is not None:
        raise error_of(state.problem)
    if state.state == "cancelled":
        raise Busy(f"{state.kind}: the work was cancelled before its end")
    raise LakebedError(f"{state.kind}: the work failed, and nobody said why")
