"""How far each topic partition or log was landed into a table, which the table itself records.

A lane is a partition of a topic, or a log. For each lane the table records the position up to which
it was landed, in the same commit that adds the rows. The name of the record contains the id of the
topic or log, so a topic that is deleted and created again is another lane. The checkpoint of the
query is only a hint: a job that starts without it, or with an old one (from a restored backup),
continues where the table ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from lakebed.base.errors import InputError
from lakebed.spark.errors import DataLost
from lakebed.spark.sources.feed import Feed, FeedState, Lane
from lakebed.spark.sources.progress import Progress
from lakebed.spark.tables.commit import Advance


class LandedRange(msgspec.Struct, frozen=True):
    """The range of positions `[start, end)` that a task read from a partition or log."""

    name: str
    number: int
    identity: str
    start: int
    end: int

    @property
    def lane(self) -> str:
        return lane_id(self.identity, self.number)


def lane_id(identity: str, number: int) -> str:
    """Returns the name under which a table records how far a partition or log was landed.

    `identity` is the id of the topic or log. The result is an empty string if it has no id.
    """
    return f"lakebed.land/{identity}/{number}" if identity else ""


def advances_of(ranges: Iterable[LandedRange]) -> list[Advance]:
    """Returns how far each partition or log advances, from its lowest start to its highest end.

    Those without an id are left out.
    """
    advances: dict[str, Advance] = {}
    for landed in ranges:
        if landed.lane:
            advance = advances.get(landed.lane, Advance(landed.lane, landed.start, landed.end))
            advances[landed.lane] = Advance(
                landed.lane, min(advance.start, landed.start), max(advance.end, landed.end)
            )
    return [advances[lane] for lane in sorted(advances)]


def as_landed(
    progress: Progress, landed: Mapping[str, int], feed: Feed, *, ends: Mapping[Lane, int] | None
) -> Progress:
    """Returns the positions at which a query continues, corrected by what its table already has.

    `progress` comes from the query's checkpoint; `landed` is how far the table has each partition
    or log. `ends` are the ends of a batch that is already planned: the result is not beyond them,
    because what was landed beyond them belongs to later batches. Raises `DataLost` if the table has
    more than the topic or log, and `InputError` if the table has less than the checkpoint and the
    difference can still be read.
    """
    positions = dict(progress.positions)
    states: dict[str, FeedState] = {}
    for lane, at in progress.positions.items():
        done = landed.get(lane_id(progress.identities.get(lane.name, ""), lane.number))
        if done is None or done == at:
            continue
        if lane.name not in states:
            states[lane.name] = feed.state(lane.name)
        bounds = states[lane.name].bounds[lane]
        if done > bounds.end:
            raise DataLost(
                f"{feed.label(lane)}: it ends at "
                f"{feed.shown(bounds.end)}, but the table has it up to {feed.shown(done)}: the "
                "source was probably restored from an older backup; land it into a new table"
            )
        if bounds.start <= done < at:
            raise InputError(
                f"{feed.label(lane)}: the table has it up to "
                f"{feed.shown(done)}, but Spark's checkpoint is already at {feed.shown(at)}: the "
                "table was probably replaced by an older one; remove the checkpoint to continue "
                "where the table ends"
            )
        if done > at:
            positions[lane] = done if ends is None else min(done, ends.get(lane, done))
    bases = {
        lane: base
        for lane, base in progress.bases.items()
        if positions.get(lane) == progress.positions.get(lane)
    }
    return Progress(progress.identities, positions, bases)
