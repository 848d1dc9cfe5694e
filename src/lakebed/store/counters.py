"""Collects the counters of everything that is open in a store.

They are grouped by engine (`aof`, `keratin`, `stroma`, `seglake` or `store`), then by log,
partition, group or object store. A histogram is reported as its count, its total, its largest value
and three quantiles.
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
    """The counters of one log, one partition, one group in a partition, or another part of a store.

    The other parts are the object store (engine `seglake`), the tiers of all logs together (engine
    `aof`) and the store itself (engine `store`). They have no labels; `labels` identify the log,
    partition or group.
    """

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
    """Returns the counters of everything that is open, except those of the store itself.

    `tiers` are the tier counters that all logs share.
    """
    counts = [
        PartCounters("aof", {"log": name}, log.counters.snapshot()) for name, log in logs.items()
    ]
    counts.append(PartCounters("aof", {}, tiers.snapshot()))
    for partition in partitions:
        labels = {"topic": str(partition.paths.topic), "partition": str(partition.number)}
        counts.append(PartCounters("keratin", labels, partition.counters.snapshot()))
    for group in groups:
        topic, number, name = group.name
        labels = {"topic": topic, "partition": str(number), "group": name}
        counts.append(PartCounters("stroma", labels, group.counters.snapshot()))
    if lake is not None:
        counts.append(PartCounters("seglake", {}, lake.counters.snapshot()))
    return counts


def engine_values(counts: Iterable[PartCounters]) -> dict[str, dict[str, Values]]:
    """Returns the values of counters by engine, then by log, partition or group, then by name.

    For example `{"aof": {"orders": {…}}, "keratin": {"orders/0": {…}}, …}`. The tier counters that
    all logs share are left out.
    """
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


def values_of(snapshot: Snapshot) -> Values:
    values: Values = {**snapshot.counters, **snapshot.gauges}
    for name, histogram in snapshot.histograms.items():
        values[f"{name}_count"] = histogram.count
        values[f"{name}_total"] = histogram.total
        values[f"{name}_max"] = histogram.maximum
        for label, fraction in _QUANTILES:
            values[f"{name}_{label}"] = histogram.quantile(fraction)
    return values
