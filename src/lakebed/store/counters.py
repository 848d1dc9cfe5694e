"""What the engines of a store count, of all that is open in it: by engine, by thing, by name.

A histogram is told as its count, its total, its largest value and three quantiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from lakebed.aof.log import Aof
from lakebed.base.counters import Counters
from lakebed.keratin.partition import Partition
from lakebed.stroma.group import PartitionGroup

if TYPE_CHECKING:
    from lakebed.seglake.lake import Lake

Values = dict[str, int | float]

_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def engine_values(
    *,
    logs: Mapping[str, Aof],
    partitions: Iterable[Partition],
    groups: Iterable[PartitionGroup],
    lake: Lake | None,
) -> dict[str, dict[str, Values]]:
    """`{"aof": {"orders": {…}}, "keratin": {"orders/0": {…}}, …}`."""
    return {
        "aof": {name: values_of(log.counters) for name, log in logs.items()},
        "keratin": {
            f"{one.paths.topic}/{one.number}": values_of(one.counters) for one in partitions
        },
        "stroma": {str(one.name): values_of(one.counters) for one in groups},
        "seglake": {} if lake is None else {"objects": values_of(lake.counters)},
    }


def values_of(counters: Counters) -> Values:
    found = counters.snapshot()
    values: Values = {**found.counters, **found.gauges}
    for name, histogram in found.histograms.items():
        values[f"{name}_count"] = histogram.count
        values[f"{name}_total"] = histogram.total
        values[f"{name}_max"] = histogram.maximum
        for label, fraction in _QUANTILES:
            values[f"{name}_{label}"] = histogram.quantile(fraction)
    return values
