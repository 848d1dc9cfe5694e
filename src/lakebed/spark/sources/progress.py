"""How far a stream has come, as Spark keeps it in its checkpoint.

    {"lakebed": {"orders": {"id": "32 hex digits", "positions": {"0": 17, "1": 4}}}, "version": 1}

`id` is the topic's (or log's) identity, empty where it cannot be told. Of a log there are `bases`,
too: where the segment of a position begins in the log. So a position at the end of a segment that
retention removed is known to be where what is left begins. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.spark.sources.feed import Lane

VERSION = 1


class Progress(NamedTuple):
    """Identities by name, and positions by lane; bases of those that have one."""

    identities: Mapping[str, str]
    positions: Mapping[Lane, int]
    bases: Mapping[Lane, int] = {}

    def moved(
        self,
        identities: Mapping[str, str],
        positions: Mapping[Lane, int],
        bases: Mapping[Lane, int],
    ) -> Progress:
        """With these in place of what was said of them; what is not said stays."""
        replaced = {
            lane: position
            for lane, position in self.positions.items()
            if identities.get(lane.name, "") in ("", self.identities.get(lane.name, ""))
        }
        known = {**self.identities, **{name: one for name, one in identities.items() if one}}
        kept = {lane: base for lane, base in self.bases.items() if lane in replaced}
        kept = {lane: base for lane, base in kept.items() if lane not in positions}
        return Progress(known, {**replaced, **positions}, {**kept, **bases})


def encode_progress(progress: Progress) -> dict[str, Any]:
    """Equal progress is equal text, too: Spark compares that."""
    names = sorted({*progress.identities, *(lane.name for lane in progress.positions)})
    found = {}
    for name in names:
        found[name] = {
            "id": progress.identities.get(name, ""),
            "positions": _of(name, progress.positions),
        }
        if bases := _of(name, progress.bases):
            found[name]["bases"] = bases
    return {"lakebed": found, "version": VERSION}


def _of(name: str, numbers: Mapping[Lane, int]) -> dict[str, int]:
    return {str(lane.number): one for lane, one in sorted(numbers.items()) if lane.name == name}


def decode_progress(document: Mapping[str, Any]) -> Progress:
    """`Corrupt` if it is none of ours."""
    try:
        if document["version"] != VERSION:
            raise Corrupt(
                "the stream's checkpoint is of another version",
                expected=VERSION,
                found=document["version"],
            )
        identities, positions, bases = {}, {}, {}
        for name, state in document["lakebed"].items():
            identities[str(name)] = str(state["id"])
            for number, at in state["positions"].items():
                positions[Lane(str(name), int(number))] = int(at)
            for number, base in state.get("bases", {}).items():
                bases[Lane(str(name), int(number))] = int(base)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Corrupt("the stream's checkpoint is not one of this source") from None
    return Progress(identities, positions, bases)
