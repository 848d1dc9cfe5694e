"""The options that set where a read starts or ends: earliest, latest, at positions, or at a time.

    startingOffsets   earliest | latest | {"orders": {"0": 17, "1": -2}} | {"0": 17}
    startingTimestamp milliseconds since 1970, or a date and time

`endingOffsets` and `endingTimestamp` take the same values. In JSON, -2 means earliest and -1 means
latest, as in Kafka. A lane (a partition of a topic, or a log) that is left out gets the default: a
read starts at the earliest and ends at the latest position. A log has a record id instead of
partitions: `{"audit": "3:64"}`.
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
    """Where a read of topics or logs starts, or where it ends."""

    default: str  # EARLIEST or LATEST, for lanes that `by_lane` does not list
    by_lane: Mapping[Lane, object] = field(default_factory=dict)
    moment_us: int | None = None

    def requested(self) -> ReadEdge:
        """Returns the edge as the store's planner takes it, for the partitions and logs that
        `by_lane` does not list.
        """
        if self.moment_us is not None:
            return ReadEdge(timestamp_us=min(max(self.moment_us, 0), INT64_MAX))
        return _ENDS[self.default]

    def requested_by_lane(self, feed: Feed) -> dict[Lane, ReadEdge]:
        """Returns the edge as the store's planner takes it, for each partition or log that
        `by_lane` lists. Raises `InputError` if a position is invalid.
        """
        return {
            lane: _ENDS.get(position)
            or ReadEdge(position=min(feed.parse(position), read_plan.U64_MAX))
            for lane, position in self.by_lane.items()
        }

    def positions(self, feed: Feed, name: str, bounds: Mapping[Lane, Bounds]) -> dict[Lane, int]:
        """Returns the position of this edge in each partition of a topic, or in a log.

        The positions may be outside the bounds, which are the current start and end.
        """
        if self.moment_us is not None:
            at_time = feed.at_time(name, self.moment_us)
            return {lane: at_time.get(lane, bounds[lane].end) for lane in bounds}
        return {lane: self._position(feed, lane, of_lane) for lane, of_lane in bounds.items()}

    def _position(self, feed: Feed, lane: Lane, bounds: Bounds) -> int:
        position = self.by_lane.get(lane, self.default)
        if position == EARLIEST:
            return bounds.start
        return bounds.end if position == LATEST else feed.parse(position)

    def named(self, feed: Feed, lane: Lane) -> int | None:
        """Returns the position that the options give for a partition or log.

        Returns None if they give earliest, latest or a time instead of a position.
        """
        position = self.by_lane.get(lane, self.default)
        return None if position in _ENDS else feed.parse(position)

    def check_lanes(self, name: str, lanes: Collection[Lane]) -> None:
        """Raises `NotFound` if the options give a position for a partition that does not exist.

        `name` is the topic, and `lanes` are its partitions.
        """
        for lane in self.by_lane:
            if lane.name == name and lane not in lanes:
                raise NotFound(
                    f"{name}: partition {lane.number} does not exist (number of partitions: "
                    f"{len(lanes)})"
                )


def edge_of(
    options: Options, offsets: str, timestamp: str, *, names: Sequence[str], default: str
) -> Edge:
    """Parses the two options that set where a read starts, or where it ends.

    `offsets` and `timestamp` are the names of the options. Raises `BadConfig` if both are set or
    one is invalid. The positions in JSON are only parsed when the edge is used.
    """
    option = options.at_most_one_of(offsets, timestamp)
    if option is None:
        return Edge(default)
    if option == timestamp:
        return Edge(default, moment_us=options.moment_us(timestamp))
    text = options.required(offsets)
    if text.lower() in (EARLIEST, LATEST):
        return Edge(text.lower())
    document = options.document(offsets)
    try:
        return Edge(default, by_lane=_by_lane(document, names))
    except InputError as error:
        requirement = f'earliest, latest, or JSON such as {{"{names[0]}": {{"0": 17}}}}: {error}'
        raise options.wrong(offsets, requirement) from None


def _by_lane(document: object, names: Sequence[str]) -> dict[Lane, object]:
    if not isinstance(document, dict) or not document:
        raise InputError("the value is not a JSON object, or is empty")
    if len(names) == 1 and names[0] not in document:
        document = {names[0]: document}
    positions: dict[Lane, object] = {}
    for name, position in document.items():
        if name not in names:
            raise InputError(f"{name!r} is not one of the topics or logs that are read")
        by_number = position if isinstance(position, dict) else {"0": position}
        for number, value in by_number.items():
            if not number.isascii() or not number.isdigit():
                raise InputError(f"{number!r} is not a partition number")
            if isinstance(value, bool | float | list | dict) or value is None:
                raise InputError(f"{value!r} is not an offset or record id")
            positions[Lane(name, int(number))] = _NUMBERS.get(value, value)
    return positions


def lost(feed: Feed, lane: Lane, *, requested: int, first: int) -> DataLost:
    """Returns the error to raise if the data from `requested` up to `first` was removed."""
    return DataLost(
        f"{feed.label(lane)}: the range from {feed.shown(requested)} up to "
        f"{feed.shown(first)} was removed before it was read; to read what is left, set "
        "failOnDataLoss=false"
    )
