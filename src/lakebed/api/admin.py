"""The calls for the state of the store, and for jobs, which are long-running work in the store."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from lakebed.api.operation import Nothing, Operation
from lakebed.api.topics import WaitMs
from lakebed.store.store_state import StoreState

_TAG = "admin"


class Health(Struct, frozen=True):
    status: str  # "ok", or "draining" during a shutdown
    version: str


class CounterValues(Struct, frozen=True):
    """Counters by engine, then by the part that they count (such as a log, a partition or a group),
    then by name.

    For example `{"keratin": {"orders/0": {"appends": 3}}}`.
    """

    counters: dict[str, dict[str, dict[str, int | float]]]


class Configuration(Struct, frozen=True):
    """The settings by section. A secret is shown as set or not set."""

    sections: dict[str, dict[str, Any]]


class StartJob(Struct, frozen=True, forbid_unknown_fields=True):
    """A job to start. `kind` is one of the `kinds` that the call `list_work` returns."""

    kind: str
    arguments: dict[str, Any] = {}


class JobState(Struct, frozen=True):
    work_id: str
    kind: str
    arguments: dict[str, Any]
    state: str  # running, done, failed, cancelled
    done: int  # how much of `total` is done; the unit depends on the kind
    total: int  # 0 if it is not known
    started_ms: int  # since 1970
    ended_ms: int | None  # since 1970; None while the job is running
    result: dict[str, Any] | None  # the report of a job that is done
    problem: dict[str, Any] | None  # the problem document of a job that failed


class JobList(Struct, frozen=True):
    kinds: list[str]
    works: list[JobState]  # those that are running, and the most recent that ended


class WaitQuery(Struct, frozen=True):
    wait_ms: WaitMs = 0  # how long to wait for the job to end


HEALTH: Final = Operation(
    "health", "GET", "/v1/health", "Check that the server responds",
    Health, tag=_TAG, is_repeatable=True, is_public=True,
)  # fmt: skip
OPENAPI: Final = Operation(
    "openapi", "GET", "/v1/openapi.json", "Describe all calls, as OpenAPI 3.1",
    dict[str, Any], tag=_TAG, is_repeatable=True, is_public=True,
)  # fmt: skip
STATE: Final = Operation(
    "state", "GET", "/v1/state", "Describe what the store contains",
    StoreState, tag=_TAG, target="Store.state", is_repeatable=True,
)  # fmt: skip
COUNTERS: Final = Operation(
    "counters", "GET", "/v1/counters", "Return the counters of all engines",
    CounterValues, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CONFIGURATION: Final = Operation(
    "configuration", "GET", "/v1/config", "Return the settings in effect, with secrets hidden",
    Configuration, tag=_TAG, target="Store.configuration", is_repeatable=True,
)  # fmt: skip
LIST_WORK: Final = Operation(
    "list_work", "GET", "/v1/work", "List jobs: what can be started, and what was started",
    JobList, tag=_TAG, is_repeatable=True,
)  # fmt: skip
START_WORK: Final = Operation(
    "start_work", "POST", "/v1/work", "Start a job",
    JobState, body=StartJob, status=202, tag=_TAG,
)  # fmt: skip
GET_WORK: Final = Operation(
    "get_work", "GET", "/v1/work/{work}", "Return the progress or the result of a job",
    JobState, query=WaitQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CANCEL_WORK: Final = Operation(
    "cancel_work", "DELETE", "/v1/work/{work}", "Cancel a job at its next step",
    Nothing, status=204, tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    HEALTH, OPENAPI, STATE, COUNTERS, CONFIGURATION, LIST_WORK, START_WORK, GET_WORK, CANCEL_WORK,
)  # fmt: skip
