"""Planned reads of a store that another process has open."""

from __future__ import annotations

from lakebed.api.operation import Operation
from lakebed.api.plans import PlannedReads, PlanReads
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.store.read_plan import PlannedRead


def plan_reads(
    caller: Caller, operation: Operation[PlannedReads], plan: PlanReads
) -> list[PlannedRead]:
    """One for each of the plan."""
    found = caller.call(operation, body=plan).reads
    if len(found) != len(plan.reads):
        raise BadAnswer(f"{operation.name}: the answer has another number of reads")
    return found
