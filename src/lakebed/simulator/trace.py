"""The log of a run in plain English: one line per step, crash and check."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from lakebed.simulator.context import Answer
from lakebed.simulator.plan import Step


class Trace:
    """Collects the lines of one run. The same plan always produces the same lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, step: Step, answer: Answer, *, wall_ms: int) -> None:
        self.lines.append(f"{step.number:5} [{wall_ms}] {answer.words}")

    def add(self, stories: Iterable[str]) -> None:
        self.lines.extend(f"      {story}" for story in stories)

    def digest(self) -> str:
        """Returns a hash of all lines, for comparing traces."""
        return blake2b("\n".join(self.lines).encode(), digest_size=16).hexdigest()
