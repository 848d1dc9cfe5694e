"""Planned reads of a remote store."""

from __future__ import annotations

from lakebed.api.operation import Operation
from lakebed.api.plans import PlannedReads, PlanReads
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.store.read_plan import PlannedRead


def plan_reads(
    caller: Caller, operation: Operation[PlannedReads], plan: PlanReads
) -> list[PlannedRead]:
    """Sends a plan to the server. Returns one planned read for each read of the plan, in order."""
    reads = caller.call(operation, body=plan).reads
    if len(reads) != len(plan.reads):
        raise BadAnswer(
            f"{operation.name}: the number of reads in the response differs from the request"
        )
    return reads
