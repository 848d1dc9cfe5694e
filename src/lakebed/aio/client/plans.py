# Made by `python -m tools.asynced` of `src/lakebed/client/plans.py`: edit that.
"""Planned reads of a store that another process has open."""

from __future__ import annotations

from lakebed.aio.client.caller import Caller
from lakebed.api.operation import Operation
from lakebed.api.plans import PlannedReads, PlanReads
from lakebed.client.errors import BadAnswer
from lakebed.store.read_plan import PlannedRead


async def plan_reads(
    caller: Caller, operation: Operation[PlannedReads], plan: PlanReads
) -> list[PlannedRead]:
    """One for each of the plan."""
    found = (await caller.call(operation, body=plan)).reads
    if len(found) != len(plan.reads):
        raise BadAnswer(f"{operation.name}: the answer has another number of reads")
    return found
