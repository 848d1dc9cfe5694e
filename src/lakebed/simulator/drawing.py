"""Draws a plan from a seed: settings, weights, and steps with their arguments.

The weights of operations and faults also come from the seed: one run has many crashes, another has
none, a third mostly leases messages. A run without faults is as useful as a run with many, because
no call may fail in it.
"""

from __future__ import annotations

from random import Random

from lakebed.simulator.faults import FAULTS
from lakebed.simulator.operations import OPERATIONS
from lakebed.simulator.plan import Plan, Step
from lakebed.simulator.settings import draw_settings

TOGETHER = "together"
FIRST: tuple[tuple[str, dict[str, int]], ...] = (
    ("topic.create", {"topic": 0, "partitions": 2}),
    ("topic.create", {"topic": 1, "partitions": 1}),
    ("bucket.create", {"bucket": 0, "versioning": 0}),
    ("bucket.create", {"bucket": 1, "versioning": 1}),
    ("bucket.create", {"bucket": 2, "versioning": 0}),
)
LASTING = (
    "disk.full",
    "disk.no_descriptors",
    "disk.read_only",
    "disk.slow",
    "disk.unreadable",
)
"""Faults that last until the plan ends them. It does so after some steps, because few calls succeed
until then.
"""
_FACTORS = (0.0, 0.2, 1.0, 1.0, 1.0, 3.0)
_FAULT_FACTORS = (0.0, 0.3, 1.0, 2.0)
_STORM_FACTORS = (1.0, 2.0, 10.0)


def draw_plan(seed: int, step_count: int) -> Plan:
    random = Random(f"plan {seed}")
    names, weights = _weights(random)
    together_share = random.choice([0.0, 0.03, 0.15])
    steps = [_draw_first(random, number) for number in range(len(FIRST))]
    number = len(steps)
    heal_at = 0
    while len(steps) < step_count:
        number += 1
        if heal_at and len(steps) >= heal_at:
            steps.append(Step(number, "disk.heal"))
            heal_at = 0
        elif random.random() < together_share:
            steps.append(_draw_together(random, number, names, weights))
            number += len(steps[-1].together)
        else:
            steps.append(_draw(random, number, random.choices(names, weights)[0]))
            if steps[-1].name in LASTING and not heal_at:
                heal_at = len(steps) + random.choice([2, 5, 12, 30])
    return Plan(seed, draw_settings(random), steps)


def _draw_first(random: Random, number: int) -> Step:
    """Returns one of the first steps, which create topics and buckets for later steps to use."""
    name, arguments = FIRST[number]
    step = _draw(random, number + 1, name)
    return Step(step.number, name, {**step.arguments, **arguments})


def _weights(random: Random) -> tuple[list[str], list[float]]:
    """Draws a weight for each operation and fault, which decides how often it occurs. Returns the
    names and the weights.
    """
    engines: dict[str, float] = {}
    weights: dict[str, float] = {}
    for name, operation in OPERATIONS.items():
        engine = name.partition(".")[0]
        if engine not in engines:
            engines[engine] = random.choice((0.1, 1.0, 1.0, 3.0))
        weights[name] = operation.weight * engines[engine] * random.choice(_FACTORS)
    trouble = random.choice(_FAULT_FACTORS)
    for name, kind in FAULTS.items():
        weights[name] = kind.weight * trouble * random.choice(_FACTORS)
    storm = random.choice(_STORM_FACTORS)
    for name in ("crash.kill", "crash.power"):
        weights[name] *= storm
    weights["time.pass"] = FAULTS["time.pass"].weight * random.choice((0.3, 1.0, 1.0, 2.0))
    weights["disk.heal"] = FAULTS["disk.heal"].weight * trouble
    return list(weights), list(weights.values())


def _draw(random: Random, number: int, name: str) -> Step:
    kind = OPERATIONS.get(name) or FAULTS[name]
    return Step(number, name, kind.draw(random))


def _draw_together(random: Random, number: int, names: list[str], weights: list[float]) -> Step:
    together: list[Step] = []
    while len(together) < random.choice([2, 2, 3, 4]):
        name = random.choices(names, weights)[0]
        operation = OPERATIONS.get(name)
        if operation is not None and not operation.is_alone:
            together.append(_draw(random, number + len(together) + 1, name))
    return Step(number, TOGETHER, {}, tuple(together))
