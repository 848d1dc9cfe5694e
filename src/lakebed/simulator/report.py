"""The table that a simulation prints: how many times each operation and fault was attempted and
succeeded, and which faults each operation met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakebed.simulator.context import Outcome
from lakebed.simulator.faults import FAULTS
from lakebed.simulator.operations import OPERATIONS

_MISSING_NAMED_MAX = 4


@dataclass
class Coverage:
    """The counts of operations and faults in one run, or summed over many runs."""

    attempted: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    met: Counter[tuple[str, str]] = field(default_factory=Counter)  # operation and fault
    step_count: int = 0
    crash_count: int = 0

    def count(self, name: str, outcome: Outcome, faults: Iterable[str]) -> None:
        self.attempted[name] += 1
        self.outcomes[name, outcome] += 1
        for fault in faults:
            self.met[name, fault] += 1

    def add(self, other: Coverage) -> None:
        self.attempted.update(other.attempted)
        self.outcomes.update(other.outcomes)
        self.met.update(other.met)
        self.step_count += other.step_count
        self.crash_count += other.crash_count

    def document(self) -> dict[str, dict[str, int]]:
        """Returns the table as a JSON document."""
        return {
            name: {
                "attempted": self.attempted[name],
                **{kind.name.lower(): self.outcomes[name, kind] for kind in Outcome},
                **{f"met {fault}": self.met[name, fault] for fault in MEETING},
            }
            for name in [*OPERATIONS, *FAULTS]
        }

    def lines(self) -> list[str]:
        """Returns the table as text, one line per operation and fault.

        The line of an operation ends with the faults that it never met, if they are only a few.
        """
        rows = [f"{'':24}{'attempted':>10}{'done':>9}{'refused':>9}{'unknown':>9}  faults met"]
        for name in [*OPERATIONS, *FAULTS]:
            counts = [
                self.outcomes[name, kind] for kind in (Outcome.OK, Outcome.REFUSED, Outcome.UNKNOWN)
            ]
            numbers = "".join(f"{count:>9}" for count in counts)
            met = [fault for fault in MEETING if self.met[name, fault]]
            missing = [fault for fault in MEETING if not self.met[name, fault]]
            pairs = f"{len(met)} of {len(MEETING)}" if name in OPERATIONS else ""
            is_few = name in OPERATIONS and 0 < len(missing) <= _MISSING_NAMED_MAX
            left = f"; not met: {', '.join(missing)}" if is_few else ""
            rows.append(f"{name:24}{self.attempted[name]:>10}{numbers}  {pairs}{left}")
        return rows


MEETING = tuple(name for name in FAULTS if name not in ("disk.heal", "time.pass"))
"""The faults that an operation can meet: a fault that is active, a fault that occurred since the
previous operation, or a crash that is planned.
"""
