"""The result of a job, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """The result of a job. `facts` are shown in this order in the summary and in the JSON
    document; numbers stay numbers.
    """

    job: str
    row_count: int = 0
    size_bytes: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # for people, before the summary: tables, damage
    is_good: bool = True  # if False, the command prints `failed` and exits with a non-zero code
