"""Plans as plain data: drawn, written, read again."""

from __future__ import annotations

import pytest

from lakebed.base.errors import InputError
from lakebed.simulator.drawing import draw_plan
from lakebed.simulator.plan import Plan


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_plan_is_read_as_it_was_written(seed: int) -> None:
    plan = draw_plan(seed, 200)
    again = Plan.decode(plan.encode(), path="plan.json")
    assert again.encode() == plan.encode()
    assert list(again.steps) == list(plan.steps)
    assert again.settings == plan.settings


def test_drawing_looks_at_nothing_but_the_seed() -> None:
    assert draw_plan(5, 300) == draw_plan(5, 300)
    assert draw_plan(5, 300) != draw_plan(6, 300)


def test_a_longer_plan_begins_as_a_shorter_one() -> None:
    assert list(draw_plan(5, 300).steps)[:100] == list(draw_plan(5, 100).steps)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": "lakebed simulation", "version": 99}', "[]"]
)
def test_what_is_no_plan_is_refused_by_name(text: str) -> None:
    with pytest.raises(InputError, match=r"plan\.json: not a simulation plan"):
        Plan.decode(text, path="plan.json")
