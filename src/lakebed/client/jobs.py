"""Runs a job in a remote store: starts it and waits until it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from lakebed.api import admin as wire
from lakebed.api.problems import error_of
from lakebed.base.errors import Busy, LakebedError
from lakebed.base.progress import Progress, no_progress
from lakebed.client.caller import Caller

_WAIT_MS = 500  # between two progress reports


def run_job(
    caller: Caller, kind: str, arguments: Mapping[str, Any], progress: Progress = no_progress
) -> dict[str, Any]:
    """Runs a job. Returns its result or raises its error. If this call is interrupted, cancels the
    job."""
    body = wire.StartJob(kind=kind, arguments=dict(arguments))
    state = caller.call(wire.START_WORK, body=body)
    names = {"work": state.work_id}
    try:
        while state.state == "running":
            progress(state.done, state.total)
            query = wire.WaitQuery(wait_ms=_WAIT_MS)
            state = caller.call(wire.GET_WORK, names, query=query, wait_s=_WAIT_MS / 1000)
    except LakebedError:
        raise
    except BaseException:
        with contextlib.suppress(LakebedError):
            caller.call(wire.CANCEL_WORK, names)
        raise
    progress(state.done, state.total)
    return _outcome(state)


def _outcome(state: wire.JobState) -> dict[str, Any]:
    if state.state == "done":
        return state.result or {}
    if state.problem is not None:
        raise error_of(state.problem)
    if state.state == "cancelled":
        raise Busy(f"{state.kind}: the job was cancelled before it ended")
    raise LakebedError(f"{state.kind}: the job failed, and the server reported no reason")
