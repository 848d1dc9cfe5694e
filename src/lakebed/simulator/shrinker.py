"""Removes steps from a failing plan as long as it still breaks the same promise.

It tries to leave out sequences of steps, long sequences first, to run concurrent steps one after
another, to reopen the store without new settings, and to reset settings to simple values. Every try
is a complete run, so there is a time limit, and the resulting plan is not always the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.simulator.plan import Plan, Step
from lakebed.simulator.run import RunResult, run_plan

PLAIN_SETTINGS = {
    "log_count_max": 0,
    "log_bytes_max": 0,
    "log_age_ms_max": 0,
    "log_archive": False,
    "log_spares": 0,
    "log_index": False,
    "tiering": False,
    "topic_ack": "after_fsync",
    "topic_compact": False,
    "topic_retention_bytes": 0,
    "topic_retention_ms": 0,
    "group_ack": "after_fsync",
    "per_key_order": False,
    "delivery_count_max": 0,
    "if_match_bucket": False,
}


class Shrinker:
    """Reduces the plan of one failed run."""

    def __init__(self, failed: RunResult, *, clock: Clock, seconds_max: float) -> None:
        assert failed.violation is not None, (
            "the run broke no promise, so there is nothing to shrink"
        )
        self._promise = failed.violation.promise
        self._clock = clock
        self._until_ns = clock.monotonic_ns() + round(seconds_max * NS_PER_S)
        self.best = failed
        self.run_count = 0

    def shrink(self) -> RunResult:
        """Returns the run with the smallest plan found that breaks the same promise."""
        plan = self.best.plan
        if self.best.step_index < len(plan.steps):
            self._try(replace(plan, steps=plan.steps[: self.best.step_index + 1]))
        self._kinds(lambda step: step.name.partition(".")[0])
        self._kinds(lambda step: step.name)
        while not self._is_over and self._pass():
            pass
        return self.best

    def _kinds(self, kind_of: Callable[[Step], str]) -> None:
        """Tries to leave out all steps of a kind, for each kind: few runs remove most steps."""
        for kind in sorted({kind_of(step) for step in self.best.plan.steps}):
            if self._is_over:
                return
            self._try_steps([step for step in self.best.plan.steps if kind_of(step) != kind])

    def _pass(self) -> bool:
        """Tries every reduction once. Returns whether one of them made the plan smaller or
        simpler.
        """
        before = self.best
        size = max(1, len(before.plan.steps) // 2)
        while size and not self._is_over:
            start = 0
            while start < len(self.best.plan.steps) and not self._is_over:
                steps = self.best.plan.steps
                if not self._try_steps([*steps[:start], *steps[start + size :]]):
                    start += size
            size //= 2
        self._each(_without_company)
        self._each(_without_lasting)
        self._plain_settings()
        return self.best is not before

    def _each(self, simpler: Callable[[Step], Sequence[Step] | None]) -> None:
        index = 0
        while index < len(self.best.plan.steps) and not self._is_over:
            steps = self.best.plan.steps
            instead = simpler(steps[index])
            if instead is not None:
                self._try_steps([*steps[:index], *instead, *steps[index + 1 :]])
            index += 1

    def _plain_settings(self) -> None:
        for name, plain in PLAIN_SETTINGS.items():
            settings = dict(self.best.plan.settings)
            if settings.get(name) != plain and not self._is_over:
                self._try(replace(self.best.plan, settings={**settings, name: plain}))

    def _try_steps(self, steps: Sequence[Step]) -> bool:
        return self._try(replace(self.best.plan, steps=tuple(steps)))

    def _try(self, plan: Plan) -> bool:
        self.run_count += 1
        result = run_plan(plan)
        if result.violation is None or result.violation.promise is not self._promise:
            return False
        self.best = result
        return True

    @property
    def _is_over(self) -> bool:
        return self._clock.monotonic_ns() > self._until_ns


def _without_company(step: Step) -> Sequence[Step] | None:
    return step.together or None


def _without_lasting(step: Step) -> Sequence[Step] | None:
    """Returns a step that reopens the store, without its new settings; None if it has none."""
    if step.arguments.get("settings"):
        return [replace(step, arguments={**step.arguments, "settings": None})]
    return None
