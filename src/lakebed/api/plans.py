"""The calls that plan large reads: each resolves positions, pins ranges and lists split points.

The classes of plans and planned reads are in `lakebed.store.read_plan`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.api.operation import Operation
from lakebed.store.read_plan import PlannedRead, WantedRead


class PlanReads(Struct, frozen=True, forbid_unknown_fields=True):
    reads: list[WantedRead]
    owner: Annotated[str, Meta(min_length=1, max_length=200)]
    duration_ms: Annotated[int, Meta(ge=0, le=7 * 24 * 3600 * 1000)]  # of the pins; 0 pins nothing


class PlannedReads(Struct, frozen=True):
    reads: list[PlannedRead]  # in the order of the request


PLAN_TOPICS: Final = Operation(
    "plan_topics", "POST", "/v1/plans/topics",
    "Plan reads of any number of topics: resolve and pin ranges, and list their split points",
    PlannedReads, body=PlanReads, tag="topics", target="Store.plan_topics", is_repeatable=True,
)  # fmt: skip
PLAN_LOGS: Final = Operation(
    "plan_logs", "POST", "/v1/plans/logs",
    "Plan reads of any number of logs: resolve and pin ranges, and list their split points",
    PlannedReads, body=PlanReads, tag="logs", target="Store.plan_logs", is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (PLAN_TOPICS, PLAN_LOGS)
