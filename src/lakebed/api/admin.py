"""How the store is, and long work in it, over the wire."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from lakebed.api.operation import Nothing, Operation
from lakebed.api.topics import WaitMs
from lakebed.store.store_state import StoreState

_TAG = "admin"


class Health(Struct, frozen=True):
    status: str  # ok, or draining
    version: str


class CounterValues(Struct, frozen=True):
    """By engine and name, and by log or partition: `{"keratin": {"orders/0": {"appends": 3}}}`."""

    counters: dict[str, dict[str, dict[str, int | float]]]


class Configuration(Struct, frozen=True):
    """By section; secrets are told as whether there is one."""

    sections: dict[str, dict[str, Any]]


class StartJob(Struct, frozen=True, forbid_unknown_fields=True):
    """`kind` is one of those that `list_work` tells; `arguments` are what it takes."""

    kind: str
    arguments: dict[str, Any] = {}


class JobState(Struct, frozen=True):
    work_id: str
    kind: str
    arguments: dict[str, Any]
    state: str  # running, done, failed, cancelled
    done: int
    total: int
    started_ms: int
    ended_ms: int | None
    result: dict[str, Any] | None
    problem: dict[str, Any] | None


class JobList(Struct, frozen=True):
    kinds: list[str]
    works: list[JobState]  # under way, and the last ones that ended


class WaitQuery(Struct, frozen=True):
    wait_ms: WaitMs = 0  # for its end


HEALTH: Final = Operation(
    "health", "GET", "/v1/health", "Whether it answers",
    Health, tag=_TAG, is_repeatable=True, is_public=True,
)  # fmt: skip
OPENAPI: Final = Operation(
    "openapi", "GET", "/v1/openapi.json", "This description of all calls, as OpenAPI 3.1",
    dict[str, Any], tag=_TAG, is_repeatable=True, is_public=True,
)  # fmt: skip
STATE: Final = Operation(
    "state", "GET", "/v1/state", "What is in the store",
    StoreState, tag=_TAG, target="Store.state", is_repeatable=True,
)  # fmt: skip
COUNTERS: Final = Operation(
    "counters", "GET", "/v1/counters", "What all engines count",
    CounterValues, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CONFIGURATION: Final = Operation(
    "configuration", "GET", "/v1/config", "The settings that count, secrets hidden",
    Configuration, tag=_TAG, target="Store.configuration", is_repeatable=True,
)  # fmt: skip
LIST_WORK: Final = Operation(
    "list_work", "GET", "/v1/work", "Long work: what can be started, and what was",
    JobList, tag=_TAG, is_repeatable=True,
)  # fmt: skip
START_WORK: Final = Operation(
    "start_work", "POST", "/v1/work", "Start long work",
    JobState, body=StartJob, status=202, tag=_TAG,
)  # fmt: skip
GET_WORK: Final = Operation(
    "get_work", "GET", "/v1/work/{work}", "How far it is, or what came of it",
    JobState, query=WaitQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
CANCEL_WORK: Final = Operation(
    "cancel_work", "DELETE", "/v1/work/{work}", "Ask it to stop at the next step",
    Nothing, status=204, tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (
    HEALTH, OPENAPI, STATE, COUNTERS, CONFIGURATION, LIST_WORK, START_WORK, GET_WORK, CANCEL_WORK,
)  # fmt: skip
