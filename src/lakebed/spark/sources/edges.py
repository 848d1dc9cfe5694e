"""Where a read begins or ends, as options say it: earliest, latest, by lane, or by time.

    startingOffsets   earliest | latest | {"orders": {"0": 17, "1": -2}} | {"0": 17}
    startingTimestamp milliseconds since 1970, or a date and time

By lane -2 is earliest and -1 is latest, as Kafka has it; one that is left out is as if nothing were
said of it. Of a log: `{"audit": "3:64"}`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.api.topics import INT64_MAX
from lakebed.base.errors import InputError, NotFound
from lakebed.spark.errors import DataLost
from lakebed.spark.options import Options
from lakebed.spark.sources.feed import Feed, Lane
from lakebed.store import read_plan
from lakebed.store.read_plan import ReadEdge
from lakebed.store.split_points import Bounds

EARLIEST, LATEST = "earliest", "latest"
_NUMBERS: Mapping[object, str] = {-2: EARLIEST, -1: LATEST}
_ENDS: Mapping[object, ReadEdge] = {EARLIEST: read_plan.EARLIEST, LATEST: read_plan.LATEST}


@dataclass(frozen=True)
class Edge:
    """One end of what is read."""

    otherwise: str  # EARLIEST or LATEST: of lanes that nothing is said of
    by_lane: Mapping[Lane, object] = field(default_factory=dict)
    moment_us: int | None = None

    def requested(self) -> ReadEdge:
        """Of lanes that nothing is said of, for a plan."""
        if self.moment_us is not None:
            return ReadEdge(timestamp_us=min(max(self.moment_us, 0), INT64_MAX))
        return _ENDS[self.otherwise]

    def requested_by_lane(self, feed: Feed) -> dict[Lane, ReadEdge]:
        """Of the others."""
        return {
            lane: _ENDS.get(said) or ReadEdge(position=min(feed.parse(said), read_plan.U64_MAX))
            for lane, said in self.by_lane.items()
        }

    def positions(self, feed: Feed, name: str, bounds: Mapping[Lane, Bounds]) -> dict[Lane, int]:
        """As they were asked for: they need not be within the bounds."""
        if self.moment_us is not None:
            found = feed.at_time(name, self.moment_us)
            return {lane: found.get(lane, bounds[lane].end) for lane in bounds}
        return {lane: self._position(feed, lane, of_lane) for lane, of_lane in bounds.items()}

    def _position(self, feed: Feed, lane: Lane, bounds: Bounds) -> int:
        said = self.by_lane.get(lane, self.otherwise)
        if said == EARLIEST:
            return bounds.start
        return bounds.end if said == LATEST else feed.parse(said)

    def named(self, feed: Feed, lane: Lane) -> int | None:
        """The position that was asked for of that lane."""
        said = self.by_lane.get(lane, self.otherwise)
        return None if said in _ENDS else feed.parse(said)

    def check_lanes(self, name: str, lanes: Collection[Lane]) -> None:
        """`NotFound` if something is said of a partition that there is not."""
        for lane in self.by_lane:
            if lane.name == name and lane not in lanes:
                raise NotFound(f"{name}: there is no partition {lane.number}: it has {len(lanes)}")


def edge_of(
    options: Options, offsets: str, timestamp: str, *, names: Sequence[str], otherwise: str
) -> Edge:
    """What these two options say, of which one can be given."""
    given = options.at_most_one_of(offsets, timestamp)
    if given is None:
        return Edge(otherwise)
    if given == timestamp:
        return Edge(otherwise, moment_us=options.moment_us(timestamp))
    text = options.required(offsets)
    if text.lower() in (EARLIEST, LATEST):
        return Edge(text.lower())
    document = options.document(offsets)
    try:
        return Edge(otherwise, by_lane=_by_lane(document, names))
    except InputError as error:
        wanted = f'earliest, latest, or JSON as {{"{names[0]}": {{"0": 17}}}}: {error}'
        raise options.wrong(offsets, wanted) from None


def _by_lane(document: object, names: Sequence[str]) -> dict[Lane, object]:
    if not isinstance(document, dict) or not document:
        raise InputError("it is no object")
    if len(names) == 1 and names[0] not in document:
        document = {names[0]: document}
    found: dict[Lane, object] = {}
    for name, said in document.items():
        if name not in names:
            raise InputError(f"{name} is not read")
        by_number = said if isinstance(said, dict) else {"0": said}
        for number, value in by_number.items():
            if not number.isascii() or not number.isdigit():
                raise InputError(f"{number} is no partition")
            if isinstance(value, bool | float | list | dict) or value is None:
                raise InputError(f"{value} is no position")
            found[Lane(name, int(number))] = _NUMBERS.get(value, value)
    return found


def lost(feed: Feed, lane: Lane, *, wanted: int, first: int) -> DataLost:
    """The messages from `wanted` on begin only at `first` by now."""
    return DataLost(
        f"{lane.name}, partition {lane.number}: what was to be read from {feed.shown(wanted)} on "
        f"was removed up to {feed.shown(first)}; read what is left with failOnDataLoss=false"
    )
