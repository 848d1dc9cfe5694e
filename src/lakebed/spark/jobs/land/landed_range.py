"""How far a table is landed: kept in the table itself, in the commit that adds the rows.

A lane is a partition of a topic, or a log. For each one the table keeps the position up to which
it was landed, under a name that has the id of the topic or log: one that is deleted and created
again is another lane. The checkpoint of the query is only a hint. A job that starts without it, or
with an old one (a store restored from a backup), goes on where the table ends.
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
    """What a task read of a lane: `[start, end)`."""

    name: str
    number: int
    identity: str
    start: int
    end: int

    @property
    def lane(self) -> str:
        return lane_id(self.identity, self.number)


def lane_id(identity: str, number: int) -> str:
    """The table's name for a lane; empty if the topic or log has no id."""
    return f"lakebed.land/{identity}/{number}" if identity else ""


def advances_of(ranges: Iterable[LandedRange]) -> list[Advance]:
    """One for each lane that has an id, from the lowest start to the highest end."""
    found: dict[str, Advance] = {}
    for one in ranges:
        if one.lane:
            known = found.get(one.lane, Advance(one.lane, one.start, one.end))
            found[one.lane] = Advance(
                one.lane, min(known.start, one.start), max(known.end, one.end)
            )
    return [found[lane] for lane in sorted(found)]


def as_landed(
    begun: Progress, landed: Mapping[str, int], feed: Feed, *, ends: Mapping[Lane, int] | None
) -> Progress:
    """The progress of a query, corrected by what its table has.

    `ends` are those of a batch that is already planned: what was landed beyond them belongs to
    later batches. Raises `DataLost` if the table has more than the topic or log, `InputError` if it
    has less than the checkpoint says and the rest can still be read.
    """
    positions = dict(begun.positions)
    looks: dict[str, FeedState] = {}
    for lane, at in begun.positions.items():
        done = landed.get(lane_id(begun.identities.get(lane.name, ""), lane.number))
        if done is None or done == at:
            continue
        if lane.name not in looks:
            looks[lane.name] = feed.state(lane.name)
        bounds = looks[lane.name].bounds[lane]
        if done > bounds.end:
            raise DataLost(
                f"{lane.name}, partition {lane.number}: it ends at {feed.shown(bounds.end)}, and "
                f"the table has it up to {feed.shown(done)}: it was restored from an older "
                "backup; land it into a new table"
            )
        if bounds.start <= done < at:
            raise InputError(
                f"{lane.name}, partition {lane.number}: the table has it up to "
                f"{feed.shown(done)}, and the checkpoint says {feed.shown(at)}: the table was "
                "replaced by an older one; remove the checkpoint, and landing goes on from the "
                "table"
            )
        if done > at:
            positions[lane] = done if ends is None else min(done, ends.get(lane, done))
    bases = {
        lane: base
        for lane, base in begun.bases.items()
        if positions.get(lane) == begun.positions.get(lane)
    }
    return Progress(begun.identities, positions, bases)
