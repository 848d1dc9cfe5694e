"""Long work over the API: started, followed, waited for, cancelled, bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakebed.api import admin
from lakebed.api.admin import JobState, StartJob
from lakebed.api.jobs import IsCancelled
from lakebed.base.errors import Busy, InputError, NotFound
from lakebed.base.progress import Progress
from lakebed.http_api.limits import ApiLimits
from lakebed.store.store import Store
from tests.fakes.function_job import FunctionJob
from tests.http_api.live_api import GIVE_UP_S, LiveApi, open_api

WAIT_MS = 30_000


class Steps:
    """Work that goes on when it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Semaphore(0)
        self.has_begun = threading.Semaphore(0)

    def run(
        self,
        _store: Store,
        arguments: Mapping[str, Any],
        progress: Progress,
        is_cancelled: IsCancelled,
    ) -> dict[str, Any]:
        total = arguments.get("steps", 1)
        done = 0
        progress(done, total)
        self.has_begun.release()
        while done < total and not is_cancelled():
            assert self.goes_on.acquire(timeout=GIVE_UP_S)
            done += 1
            progress(done, total)
        return {"done": done}


def go_on_until_cancelled(
    _store: Store, _: Mapping[str, Any], _progress: Progress, is_cancelled: IsCancelled
) -> dict[str, Any]:
    never = threading.Event()
    while not is_cancelled():
        never.wait(0.001)
    return {}


def fail(*_: object) -> dict[str, Any]:
    raise NotFound("no such log")


def break_down(*_: object) -> dict[str, Any]:
    raise ZeroDivisionError("oh")


def tell_unspeakable(*_: object) -> dict[str, Any]:
    return {"what": object()}


@contextmanager
def live_api_with(root: Path, steps: Steps, limits: ApiLimits | None = None) -> Iterator[LiveApi]:
    kinds = {
        "steps": FunctionJob(steps.run),
        "fail": FunctionJob(fail),
        "endless": FunctionJob(go_on_until_cancelled),
        "break": FunctionJob(break_down),
        "unspeakable": FunctionJob(tell_unspeakable),
    }
    with open_api(root, api_options={"jobs": kinds, "api_limits": limits}) as live_api:
        yield live_api


def start(live_api: LiveApi, kind: str, **arguments: Any) -> JobState:
    return live_api.call(admin.START_WORK, body=StartJob(kind, arguments))


def wait(live_api: LiveApi, work: JobState, wait_ms: int = WAIT_MS) -> JobState:
    return live_api.call(admin.GET_WORK, {"work": work.work_id}, {"wait_ms": wait_ms})


def test_work_is_started_followed_and_its_end_waited_for(tmp_path: Path) -> None:
    steps = Steps()
    with live_api_with(tmp_path, steps) as live_api:
        work = start(live_api, "steps", steps=2)
        assert (work.state, work.arguments, work.ended_ms) == ("running", {"steps": 2}, None)
        steps.has_begun.acquire()
        assert wait(live_api, work, wait_ms=1).total == 2, "it does not wait for longer than asked"
        steps.goes_on.release(2)
        ended = wait(live_api, work)
        assert (ended.state, ended.result, ended.done, ended.total) == ("done", {"done": 2}, 2, 2)
        assert ended.ended_ms is not None
        assert ended.problem is None
        listed = live_api.call(admin.LIST_WORK)
        assert listed.works == [ended]
        assert listed.kinds == ["break", "endless", "fail", "steps", "unspeakable"]


def test_work_is_cancelled_at_its_next_step(tmp_path: Path) -> None:
    steps = Steps()
    with live_api_with(tmp_path, steps) as live_api:
        work = start(live_api, "steps", steps=1000)
        steps.has_begun.acquire()
        for _ in range(2):
            live_api.call(admin.CANCEL_WORK, {"work": work.work_id})
        steps.goes_on.release()
        ended = wait(live_api, work)
        assert ended.state == "cancelled"
        assert ended.result == {"done": ended.done}
        live_api.call(admin.CANCEL_WORK, {"work": work.work_id})
        assert wait(live_api, work) == ended


def test_work_that_was_done_before_it_heard_of_its_end_is_done(tmp_path: Path) -> None:
    steps = Steps()
    with live_api_with(tmp_path, steps) as live_api:
        work = start(live_api, "steps", steps=0)
        ended = wait(live_api, work)
        live_api.call(admin.CANCEL_WORK, {"work": work.work_id})
        assert wait(live_api, work).state == ended.state == "done"


@pytest.mark.parametrize(
    ("kind", "code"),
    [("fail", "not-found"), ("break", "lakebed-error"), ("unspeakable", "lakebed-error")],
)
def test_work_that_fails_tells_why(tmp_path: Path, kind: str, code: str) -> None:
    with live_api_with(tmp_path, Steps()) as live_api:
        ended = wait(live_api, start(live_api, kind))
        assert (ended.state, ended.result) == ("failed", None)
        assert ended.problem is not None
        assert ended.problem["code"] == code


def test_so_many_run_at_a_time_and_the_next_has_to_come_again(tmp_path: Path) -> None:
    steps = Steps()
    with live_api_with(tmp_path, steps, ApiLimits(jobs_max=2)) as live_api:
        works = [start(live_api, "steps"), start(live_api, "steps")]
        with pytest.raises(Busy):
            start(live_api, "steps")
        steps.goes_on.release(2)
        for work in works:
            wait(live_api, work)
        steps.goes_on.release()
        assert wait(live_api, start(live_api, "steps")).state == "done"


def test_of_those_that_ended_the_last_ones_are_kept(tmp_path: Path) -> None:
    with live_api_with(tmp_path, Steps(), ApiLimits(jobs_kept=2)) as live_api:
        works = []
        for _ in range(4):
            works.append(start(live_api, "fail"))
            wait(live_api, works[-1])
        kept = [one.work_id for one in live_api.call(admin.LIST_WORK).works]
        assert kept == [one.work_id for one in works[2:]]
        with pytest.raises(NotFound):
            wait(live_api, works[0])


def test_there_is_no_work_of_an_unknown_kind_or_name(tmp_path: Path) -> None:
    with live_api_with(tmp_path, Steps()) as live_api:
        with pytest.raises(InputError, match="the known kinds are: break, endless"):
            start(live_api, "nothing")
        for operation in (admin.GET_WORK, admin.CANCEL_WORK):
            with pytest.raises(NotFound):
                live_api.call(operation, {"work": "nothing"})


def test_the_api_ends_after_jobs_that_are_stopped(tmp_path: Path) -> None:
    with live_api_with(tmp_path, Steps()) as live_api:
        start(live_api, "endless")
        works = live_api.api.service.jobs
    assert [one.state for one in works.list()] == ["cancelled"]
