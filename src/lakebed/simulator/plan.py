"""The plan of a run as plain data: the settings of the store, and the steps.

A plan is drawn from a seed before the run, or read from JSON, and depends on nothing that happens
in the run. A step keeps its number when other steps are removed, because the data that the step
writes is derived from its number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.base.errors import InputError

FORMAT = "lakebed simulation"
VERSION = 1


@dataclass(frozen=True)
class Step:
    """An operation or a fault with its arguments, or several operations that run at the same
    time.
    """

    number: int
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    together: tuple[Step, ...] = ()  # run at the same time, each by its own client

    def document(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"number": self.number, "do": self.name, **self.arguments}
        if self.together:
            fields["steps"] = [step.document() for step in self.together]
        return fields

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Step:
        arguments = dict(document)
        number, name = arguments.pop("number"), arguments.pop("do")
        together = tuple(map(cls.of, arguments.pop("steps", ())))
        return cls(number, name, arguments, together)


@dataclass(frozen=True)
class Plan:
    """A whole run. `seed` also decides the order of threads and what survives a power cut."""

    seed: int
    settings: Mapping[str, Any]
    steps: Sequence[Step]

    def encode(self) -> str:
        head = {"format": FORMAT, "version": VERSION, "seed": self.seed, "settings": self.settings}
        lines = ",\n  ".join(json.dumps(step.document()) for step in self.steps)
        text = json.dumps(head, indent=1, sort_keys=True).rstrip("}").rstrip()
        return f'{text},\n "steps": [\n  {lines}\n ]\n}}\n'

    @classmethod
    def decode(cls, text: str, *, path: str) -> Plan:
        try:
            document = json.loads(text)
            if (document["format"], document["version"]) != (FORMAT, VERSION):
                raise ValueError
            steps = tuple(map(Step.of, document["steps"]))
            return cls(int(document["seed"]), document["settings"], steps)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(f"{path}: not a simulation plan of version {VERSION}") from None
