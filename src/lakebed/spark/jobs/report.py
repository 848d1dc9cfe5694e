"""The report that a Spark job returns, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """The result of a Spark job.

    `facts` are shown in the order of the dictionary, both in the text summary and in the JSON
    document.
    """

    job: str
    row_count: int = 0
    size_bytes: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()  # text printed before the summary, such as tables and damage
    is_good: bool = True  # if False, the command prints `failed` and exits with a non-zero code
