"""The one exporter: what all engines count, the requests of both endpoints, and the process.

Prometheus' text format 0.0.4, or OpenMetrics 1.0.0 for who asks for it. A histogram has few fixed
buckets: a value of an engine is counted at the upper end of the finer bucket that it was observed
in, so at most a quarter too high.

The library takes a tenth of a second to import: the first who looks at the metrics waits for it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakebed import kernels
from lakebed.base.clock import NS_PER_S
from lakebed.base.counters import HistogramSnapshot, Snapshot
from lakebed.base.units import GIB, KIB, MIB
from lakebed.node.metric_names import SECONDS, exported
from lakebed.node.observer import RequestCounts, RequestSnapshot
from lakebed.node.readiness import ReadinessReport
from lakebed.store.counters import PartCounters as EngineCounted
from lakebed.version import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from lakebed.seglake.meta.rows import Totals

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

SIZES: Final = (4 * KIB, 64 * KIB, 1 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1 * GIB)

Labels = Mapping[str, str]


class NodeFacts(NamedTuple):
    """What is known of the node itself at one moment."""

    requests: Sequence[RequestSnapshot]
    connections: Mapping[str, int]  # by endpoint
    replays_detected: int


def accepted(accept: str) -> str:
    """The content type of the answer. Whoever does not say OpenMetrics gets the older text."""
    for one in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in one.split(";"))
        said = dict(part.partition("=")[::2] for part in parameters)
        is_wanted = said.get("q", "1").strip("0.") != ""
        is_known = said.get("version", "1.0.0") in ("0.0.1", "1.0.0")
        if kind == "application/openmetrics-text" and is_wanted and is_known:
            return OPEN_METRICS
    return TEXT


def counted_totals(totals: Totals) -> EngineCounted:
    """As if the engine counted them itself."""
    return EngineCounted("seglake", {}, Snapshot({}, {**totals._asdict()}, {}))


def rendered(
    facts: NodeFacts, disk: ReadinessReport, counts: Iterable[EngineCounted], *, content_type: str
) -> bytes:
    """In any thread."""
    from prometheus_client import exposition
    from prometheus_client.openmetrics import exposition as open_exposition

    everything = _NodeCollector(lambda: _families(facts, disk, counts))
    if content_type == OPEN_METRICS:
        text: bytes = open_exposition.generate_latest(everything)  # type: ignore[no-untyped-call]
        return text
    return exposition.generate_latest(everything)


class _NodeCollector:
    """A collector, as the library wants one."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return self._families()


def _families(
    facts: NodeFacts, disk: ReadinessReport, counts: Iterable[EngineCounted]
) -> Iterator[Metric]:
    yield from _of_engines(counts)
    yield from _of_requests(facts)
    yield from _of_process()
    yield from _of_disk(disk)


def _of_engines(counts: Iterable[EngineCounted]) -> Iterator[Metric]:
    """One family for each name, whatever number of logs or partitions has it."""
    found: dict[str, Any] = {}
    for engine, labels, snapshot in counts:
        for name, count in snapshot.counters.items():
            _add_counter(found, exported(engine, name), labels, count)
        for name, value in snapshot.gauges.items():
            _add_gauge(found, exported(engine, name), labels, value)
        for name, histogram in snapshot.histograms.items():
            how = exported(engine, name)
            bounds = SECONDS if how.scale == NS_PER_S else SIZES
            _add_histogram(found, how[:2], labels, histogram, scale=how.scale, bounds=bounds)
    for name in sorted(found):
        yield found[name]


def _add_counter(
    found: dict[str, Any], how: tuple[str, str, int], labels: Labels, count: float
) -> None:
    from prometheus_client.core import CounterMetricFamily

    name, text, scale = how
    if name not in found:
        found[name] = CounterMetricFamily(name, text, labels=list(labels))
    found[name].add_metric(list(labels.values()), count if scale == 1 else count / scale)


def _add_gauge(
    found: dict[str, Any], how: tuple[str, str, int], labels: Labels, value: float
) -> None:
    from prometheus_client.core import GaugeMetricFamily

    name, text, scale = how
    if name not in found:
        found[name] = GaugeMetricFamily(name, text, labels=list(labels))
    found[name].add_metric(list(labels.values()), value if scale == 1 else value / scale)


def _add_histogram(
    found: dict[str, Any],
    how: tuple[str, str],
    labels: Labels,
    histogram: HistogramSnapshot,
    *,
    scale: int,
    bounds: Sequence[float],
) -> None:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    name, text = how
    if name not in found:
        found[name] = HistogramMetricFamily(name, text, labels=list(labels))
    counts = cumulative(histogram, [bound * scale for bound in bounds])
    buckets = [*zip(map(floatToGoString, bounds), counts, strict=True), ("+Inf", histogram.count)]
    found[name].add_metric(list(labels.values()), buckets, histogram.total / scale)


def cumulative(histogram: HistogramSnapshot, bounds: Sequence[float]) -> list[int]:
    """How many values lie in buckets that end at each bound or before it."""
    counts, at, count = [], 0, 0
    buckets = histogram.buckets
    for bound in bounds:
        while at < len(buckets) and buckets[at][0] <= bound:
            count += buckets[at][1]
            at += 1
        counts.append(count)
    return counts


def _of_requests(facts: NodeFacts) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    inflight = GaugeMetricFamily(
        "lakebed_inflight", "Requests under way.", labels=["endpoint", "op"]
    )
    connections = GaugeMetricFamily(
        "lakebed_connections", "Clients that are connected.", labels=["endpoint"]
    )
    received = CounterMetricFamily(
        "lakebed_bytes_in", "Bytes of bodies that came.", labels=["endpoint"]
    )
    sent = CounterMetricFamily(
        "lakebed_bytes_out", "Bytes of bodies that went.", labels=["endpoint"]
    )
    found: dict[str, Any] = {}
    for one in facts.requests:
        here = {"endpoint": one.endpoint}
        _add_requests(found, "", here, "op", one.by_operation)
        _add_requests(found, "_by_bucket", here, "bucket", one.by_bucket)
        _add_requests(found, "_by_key", here, "access_key", one.by_key)
        for operation, count in one.inflight.items():
            inflight.add_metric([one.endpoint, operation], count)
        received.add_metric([one.endpoint], one.bytes_in)
        sent.add_metric([one.endpoint], one.bytes_out)
        connections.add_metric([one.endpoint], facts.connections[one.endpoint])
    yield from found.values()
    yield from (inflight, connections, received, sent)
    yield CounterMetricFamily(
        "lakebed_replay_detected",
        "Requests whose signature was seen before.",
        value=facts.replays_detected,
    )


def _add_requests(
    found: dict[str, Any], suffix: str, here: Labels, by: str, counted: RequestCounts
) -> None:
    for (name, status_class), count in counted.requests.items():
        labels = {**here, by: name, "status_class": status_class}
        how = f"lakebed_requests{suffix}", "Requests that were answered.", 1
        _add_counter(found, how, labels, count)
    for name, histogram in counted.durations.items():
        told = (
            f"lakebed_request_duration{suffix}_seconds",
            "From the end of a request's head to the end of its answer.",
        )
        labels = {**here, by: name}
        _add_histogram(found, told, labels, histogram, scale=NS_PER_S, bounds=SECONDS)


def _of_process() -> Iterator[Metric]:
    from prometheus_client.core import InfoMetricFamily
    from prometheus_client.process_collector import ProcessCollector

    yield InfoMetricFamily(
        "lakebed_build",
        "What runs here.",
        value={
            "version": VERSION,
            "python": platform.python_version(),
            "kernels": "compiled" if kernels.COMPILED else "reference",
        },
    )
    yield from ProcessCollector(registry=None).collect()


def _of_disk(disk: ReadinessReport) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    if disk.free_bytes is not None:
        yield GaugeMetricFamily(
            "lakebed_disk_free_bytes", "Free space for the store.", value=disk.free_bytes
        )
    yield GaugeMetricFamily(
        "lakebed_disk_reserve_bytes",
        "Free space below which the store takes no more writes.",
        value=disk.reserve_bytes,
    )
    yield GaugeMetricFamily(
        "lakebed_not_writable",
        "Logs, partitions and groups that take no writes since something failed.",
        value=len(disk.failed),
    )
