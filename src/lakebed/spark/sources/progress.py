"""The progress of a stream, as Spark stores it in its checkpoint. Does no I/O.

    {"lakebed": {"orders": {"id": "32 hex digits", "positions": {"0": 17, "1": 4}}}, "version": 1}

`id` is the identity of the topic or log; it is empty if unknown. Logs also have `bases`: the base
offset of the segment of each position. If a stream has read a segment to its end and retention then
removes the segment, the base shows that the next segment follows without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.spark.sources.feed import Lane

VERSION = 1


class Progress(NamedTuple):
    """How far a stream has read: identities by topic or log, and positions and bases by lane.

    A lane is a partition of a topic, or a log. Not every lane has a base.
    """

    identities: Mapping[str, str]
    positions: Mapping[Lane, int]
    bases: Mapping[Lane, int] = {}

    def moved(
        self,
        identities: Mapping[str, str],
        positions: Mapping[Lane, int],
        bases: Mapping[Lane, int],
    ) -> Progress:
        """Returns the progress updated with these values.

        Partitions and logs that are not in `positions` keep their position and base. If the
        identity of their topic or log has changed, they are dropped instead.
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
    """Converts the progress to a JSON document.

    Equal progress always gives an equal document, because Spark compares its text.
    """
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
    """Parses the JSON document of a progress. Raises `Corrupt` if it has another format or another
    format version.
    """
    try:
        if document["version"] != VERSION:
            raise Corrupt(
                "the stream's checkpoint has a format version that is not supported: use the "
                "version of Lakebed that wrote it, or start with a new checkpoint",
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
        raise Corrupt(
            "the stream's checkpoint is damaged, or was written by another data source: start with "
            "a new checkpoint"
        ) from None
    return Progress(identities, positions, bases)
