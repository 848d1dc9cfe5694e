"""A Dockerfile, read: its instructions in order, and what each stage of it comes to."""

from __future__ import annotations

import json
import re
from typing import NamedTuple


class Instruction(NamedTuple):
    """One, with its continued lines joined."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of the exec form (a JSON list) its elements."""
        return list(json.loads(self.text)) if self.text.startswith("[") else self.text.split()

    @property
    def is_exec_form(self) -> bool:
        return self.text.startswith("[")


def read(text: str) -> list[list[Instruction]]:
    """By stages; what stands before the first one is a stage too."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[list[Instruction]] = [[]]
    for line in filter(str.strip, joined.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append(Instruction(name, rest.strip()))
    return stages


def only(stage: list[Instruction], name: str) -> Instruction:
    (found,) = (one for one in stage if one.name == name)
    return found


def variables(stage: list[Instruction]) -> dict[str, str]:
    """Those of ENV, none of them with spaces."""
    pairs = (word.partition("=") for one in stage if one.name == "ENV" for word in one.words)
    return {name: value for name, _, value in pairs}
