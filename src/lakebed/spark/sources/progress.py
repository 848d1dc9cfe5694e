"""The progress of a stream, as Spark stores it in its checkpoint. Without I/O.

    {"lakebed": {"orders": {"id": "32 hex digits", "positions": {"0": 17, "1": 4}}}, "version": 1}

`id` is the identity of the topic or log, empty if unknown. Logs also have `bases`: where the
segment of a position starts in the log. With it, a position at the end of a segment that retention
removed is recognised as the start of what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.spark.sources.feed import Lane

VERSION = 1


class Progress(NamedTuple):
    """Identities by name, and positions and bases by lane. Not every lane has a base."""

    identities: Mapping[str, str]
    positions: Mapping[Lane, int]
    bases: Mapping[Lane, int] = {}

    def moved(
        self,
        identities: Mapping[str, str],
        positions: Mapping[Lane, int],
        bases: Mapping[Lane, int],
    ) -> Progress:
        """Returns the progress with these values. Lanes that are not mentioned keep theirs,
        unless the identity of their topic or log changed.
        """
        unchanged = {
            lane: position
            for lane, position in self.positions.items()
            if identities.get(lane.name, "") in ("", self.identities.get(lane.name, ""))
        }
        merged = {
            **self.identities,
            **{name: identity for name, identity in identities.items() if identity},
        }
        kept_bases = {lane: base for lane, base in self.bases.items() if lane in unchanged}
        kept_bases = {lane: base for lane, base in kept_bases.items() if lane not in positions}
        return Progress(merged, {**unchanged, **positions}, {**kept_bases, **bases})


def encode_progress(progress: Progress) -> dict[str, Any]:
    """Equal progress always gives equal text, because Spark compares the text."""
    names = sorted({*progress.identities, *(lane.name for lane in progress.positions)})
    states = {}
    for name in names:
        states[name] = {
            "id": progress.identities.get(name, ""),
            "positions": _of(name, progress.positions),
        }
        if bases := _of(name, progress.bases):
            states[name]["bases"] = bases
    return {"lakebed": states, "version": VERSION}


def _of(name: str, numbers: Mapping[Lane, int]) -> dict[str, int]:
    return {str(lane.number): value for lane, value in sorted(numbers.items()) if lane.name == name}


def decode_progress(document: Mapping[str, Any]) -> Progress:
    """Raises `Corrupt` if the document is not a progress of this format."""
    try:
        if document["version"] != VERSION:
            raise Corrupt(
                "the stream's checkpoint has another format version",
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
        raise Corrupt("the stream's checkpoint was not written by this source") from None
    return Progress(identities, positions, bases)
