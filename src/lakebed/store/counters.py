"""What the engines of a store count, of all that is open in it: by engine, by thing, by name.

A histogram is told as its count, its total, its largest value and three quantiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from lakebed.aof.log import Aof
from lakebed.base.counters import Counters, Snapshot
from lakebed.keratin.partition import Partition
from lakebed.stroma.group import PartitionGroup

if TYPE_CHECKING:
    from lakebed.seglake.lake import Lake

Values = dict[str, int | float]

_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


class PartCounters(NamedTuple):
    """What one thing of an engine counts; `labels` say which thing."""

    engine: str
    labels: dict[str, str]
    snapshot: Snapshot


def engine_counts(
    *,
    logs: Mapping[str, Aof],
    partitions: Iterable[Partition],
    groups: Iterable[PartitionGroup],
    lake: Lake | None,
    tiers: Counters,
) -> list[PartCounters]:
    """Of all that is open; `tiers` is what logs share."""
    found = [
        PartCounters("aof", {"log": name}, log.counters.snapshot()) for name, log in logs.items()
    ]
    found.append(PartCounters("aof", {}, tiers.snapshot()))
    for part in partitions:
        labels = {"topic": str(part.paths.topic), "partition": str(part.number)}
        found.append(PartCounters("keratin", labels, part.counters.snapshot()))
    for group in groups:
        topic, number, name = group.name
        labels = {"topic": topic, "partition": str(number), "group": name}
        found.append(PartCounters("stroma", labels, group.counters.snapshot()))
    if lake is not None:
        found.append(PartCounters("seglake", {}, lake.counters.snapshot()))
    return found


def engine_values(counts: Iterable[PartCounters]) -> dict[str, dict[str, Values]]:
    """`{"aof": {"orders": {…}}, "keratin": {"orders/0": {…}}, …}`; without what logs share."""
    engines = ("aof", "keratin", "stroma", "seglake", "store")
    values: dict[str, dict[str, Values]] = {engine: {} for engine in engines}
    for engine, labels, snapshot in counts:
        if engine != "aof" or labels:
            values[engine][_name(engine, labels)] = values_of(snapshot)
    return values


def _name(engine: str, labels: Mapping[str, str]) -> str:
    match engine:
        case "keratin":
            return f"{labels['topic']}/{labels['partition']}"
        case "stroma":
            return f"{labels['topic']}-{labels['partition']} {labels['group']}"
        case "seglake":
            return "objects"
        case "store":
            return "damage"
    return labels["log"]


def values_of(found: Snapshot) -> Values:
    values: Values = {**found.counters, **found.gauges}
    for name, histogram in found.histograms.items():
        values[f"{name}_count"] = histogram.count
        values[f"{name}_total"] = histogram.total
        values[f"{name}_max"] = histogram.maximum
        for label, fraction in _QUANTILES:
            values[f"{name}_{label}"] = histogram.quantile(fraction)
    return values
