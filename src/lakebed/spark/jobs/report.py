"""What a job says when it is done, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """`facts` go into a summary and a JSON document, in this order; numbers stay numbers."""

    job: str
    row_count: int = 0
    size_bytes: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # for people, before the summary: a table, what was damaged
    is_good: bool = True  # else the command ends with `failed` and a non-zero code
