"""Renders the metrics of all engines, of the requests to both endpoints, and of the process.

The output is in the Prometheus text format 0.0.4, or in OpenMetrics 1.0.0 for clients that accept
it. Exported histograms have a few fixed buckets. A value is counted as the upper bound of the finer
bucket in which the engine counted it, so it may be up to 25 % too high.

The Prometheus library takes a tenth of a second to import, so it is imported at the first scrape.
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
    """The requests and connections of a node at one moment."""

    requests: Sequence[RequestSnapshot]
    connections: Mapping[str, int]  # by endpoint
    replays_detected: int


def accepted(accept: str) -> str:
    """Returns the content type for an Accept header: OpenMetrics if the client accepts it,
    otherwise the Prometheus text format.
    """
    for media in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in media.split(";"))
        values = dict(part.partition("=")[::2] for part in parameters)
        is_wanted = values.get("q", "1").strip("0.") != ""
        is_known = values.get("version", "1.0.0") in ("0.0.1", "1.0.0")
        if kind == "application/openmetrics-text" and is_wanted and is_known:
            return OPEN_METRICS
    return TEXT


def counted_totals(totals: Totals) -> EngineCounted:
    """Returns the totals of the object store as metrics of its engine."""
    return EngineCounted("seglake", {}, Snapshot({}, {**totals._asdict()}, {}))


def rendered(
    facts: NodeFacts, disk: ReadinessReport, counts: Iterable[EngineCounted], *, content_type: str
) -> bytes:
    """Returns all metrics in the format of `content_type`. Any thread may call it."""
    from prometheus_client import exposition
    from prometheus_client.openmetrics import exposition as open_exposition

    everything = _NodeCollector(lambda: _families(facts, disk, counts))
    if content_type == OPEN_METRICS:
        text: bytes = open_exposition.generate_latest(everything)  # type: ignore[no-untyped-call]
        return text
    return exposition.generate_latest(everything)


class _NodeCollector:
    """Passes metrics to the Prometheus library, which requires an object with `collect`."""

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
    """Yields one metric per name, with a sample for each log, partition or group."""
    families: dict[str, Any] = {}
    for engine, labels, snapshot in counts:
        for name, count in snapshot.counters.items():
            _add_counter(families, exported(engine, name), labels, count)
        for name, value in snapshot.gauges.items():
            _add_gauge(families, exported(engine, name), labels, value)
        for name, histogram in snapshot.histograms.items():
            how = exported(engine, name)
            bounds = SECONDS if how.scale == NS_PER_S else SIZES
            _add_histogram(families, how[:2], labels, histogram, scale=how.scale, bounds=bounds)
    for name in sorted(families):
        yield families[name]


def _add_counter(
    families: dict[str, Any], how: tuple[str, str, int], labels: Labels, count: float
) -> None:
    from prometheus_client.core import CounterMetricFamily

    name, text, scale = how
    if name not in families:
        families[name] = CounterMetricFamily(name, text, labels=list(labels))
    families[name].add_metric(list(labels.values()), count if scale == 1 else count / scale)


def _add_gauge(
    families: dict[str, Any], how: tuple[str, str, int], labels: Labels, value: float
) -> None:
    from prometheus_client.core import GaugeMetricFamily

    name, text, scale = how
    if name not in families:
        families[name] = GaugeMetricFamily(name, text, labels=list(labels))
    families[name].add_metric(list(labels.values()), value if scale == 1 else value / scale)


def _add_histogram(
    families: dict[str, Any],
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
    if name not in families:
        families[name] = HistogramMetricFamily(name, text, labels=list(labels))
    counts = cumulative(histogram, [bound * scale for bound in bounds])
    buckets = [*zip(map(floatToGoString, bounds), counts, strict=True), ("+Inf", histogram.count)]
    families[name].add_metric(list(labels.values()), buckets, histogram.total / scale)


def cumulative(histogram: HistogramSnapshot, bounds: Sequence[float]) -> list[int]:
    """Returns, for each bound, the number of values in buckets that end at or below it."""
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
        "lakebed_inflight", "Requests in progress.", labels=["endpoint", "op"]
    )
    connections = GaugeMetricFamily(
        "lakebed_connections", "Connected clients.", labels=["endpoint"]
    )
    received = CounterMetricFamily(
        "lakebed_bytes_in", "Bytes of request bodies received.", labels=["endpoint"]
    )
    sent = CounterMetricFamily(
        "lakebed_bytes_out", "Bytes of response bodies sent.", labels=["endpoint"]
    )
    families: dict[str, Any] = {}
    for requests in facts.requests:
        here = {"endpoint": requests.endpoint}
        _add_requests(families, "", here, "op", requests.by_operation)
        _add_requests(families, "_by_bucket", here, "bucket", requests.by_bucket)
        _add_requests(families, "_by_key", here, "access_key", requests.by_key)
        for operation, count in requests.inflight.items():
            inflight.add_metric([requests.endpoint, operation], count)
        received.add_metric([requests.endpoint], requests.bytes_in)
        sent.add_metric([requests.endpoint], requests.bytes_out)
        connections.add_metric([requests.endpoint], facts.connections[requests.endpoint])
    yield from families.values()
    yield from (inflight, connections, received, sent)
    yield CounterMetricFamily(
        "lakebed_replay_detected",
        "Requests refused because their signature was used before.",
        value=facts.replays_detected,
    )


def _add_requests(
    families: dict[str, Any], suffix: str, here: Labels, by: str, counted: RequestCounts
) -> None:
    for (name, status_class), count in counted.requests.items():
        labels = {**here, by: name, "status_class": status_class}
        how = f"lakebed_requests{suffix}", "Requests answered.", 1
        _add_counter(families, how, labels, count)
    for name, histogram in counted.durations.items():
        told = (
            f"lakebed_request_duration{suffix}_seconds",
            "Time from the end of a request's head to the end of its response.",
        )
        labels = {**here, by: name}
        _add_histogram(families, told, labels, histogram, scale=NS_PER_S, bounds=SECONDS)


def _of_process() -> Iterator[Metric]:
    from prometheus_client.core import InfoMetricFamily
    from prometheus_client.process_collector import ProcessCollector

    yield InfoMetricFamily(
        "lakebed_build",
        "Version of the running node.",
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
            "lakebed_disk_free_bytes", "Free disk space of the store.", value=disk.free_bytes
        )
    yield GaugeMetricFamily(
        "lakebed_disk_reserve_bytes",
        "Free disk space below which some writes are refused.",
        value=disk.reserve_bytes,
    )
    yield GaugeMetricFamily(
        "lakebed_not_writable",
        "Logs, partitions, groups and object stores that refuse writes after a failure.",
        value=len(disk.failed),
    )
