"""`metrics.md`: the families of `/metrics`, of a node that has one thing of each engine open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from tempfile import TemporaryDirectory
from typing import Any, Final

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lakebed.base.counters import Histogram
from lakebed.base.units import format_bytes
from lakebed.host.store import Store
from lakebed.node.metric_names import SECONDS, exported
from lakebed.node.metrics import OPEN_METRICS, SIZES, NodeFacts, counted_totals, rendered
from lakebed.node.observer import RequestCounts as RequestsCounted
from lakebed.node.observer import RequestSnapshot
from lakebed.node.readiness import ReadinessReport
from lakebed.seglake.meta.rows import Totals
from lakebed.store.counters import PartCounters
from tools.reference.markdown import code, codes, plain, table
from tools.reference.markdown import page as page_of

_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_OF_A_BUCKET: Final = "le"

_INTRODUCTION = """
The metrics of a node at `/metrics`; access is described in
[configuration](../guides/configuration.md#metrics). A histogram has the suffixes `_bucket`, `_sum`
and `_count`. *counted as* is the engine's own name, used in `/v1/counters` and in `counters` in
Python, where the value is in the unit of that name.
""".strip()


def page() -> str:
    counts = engine_counts()
    counted_as = dict(_names(counts))
    parts = [*counts, counted_totals(Totals(0, 0, 0, 0, 0))]  # these are no counters
    text = rendered(_facts(), ReadinessReport(0, 0, ()), parts, content_type=OPEN_METRICS).decode()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    rows = sorted(_row(family, counted_as) for family in families)
    headings = ("name", "type", "labels", "meaning", "counted as")
    return page_of("Metrics", _INTRODUCTION, _buckets(), table(headings, rows))


def engine_counts() -> list[PartCounters]:
    """Of a store in which there is one of each."""
    with TemporaryDirectory() as folder, Store.open(folder, serves=False) as store:
        store.log("log")
        store.topic("topic", partitions=1).group("group")
        store.bucket("bucket")
        return store.counts()


def _names(counts: Iterable[PartCounters]) -> Iterator[tuple[str, str]]:
    """How what an engine counts is exported, and how the engine calls it."""
    for engine, _, snapshot in counts:
        for name in (*snapshot.counters, *snapshot.gauges, *snapshot.histograms):
            yield exported(engine, name).name, f"{engine}: {code(name)}"


def _facts() -> NodeFacts:
    """A node with one request, which had all that a request can have."""
    durations = {"name": Histogram().snapshot()}
    requests = RequestsCounted({("name", "2xx"): 1}, durations)
    seen = RequestSnapshot("s3", requests, requests, requests, {"name": 1}, 0, 0)
    return NodeFacts([seen], {"s3": 1}, replays_detected=0)


def _row(family: Any, counted_as: Mapping[str, str]) -> tuple[str, ...]:
    labels: dict[str, None] = {}
    for sample in family.samples:
        labels |= dict.fromkeys(sample.labels)
    labels.pop(_OF_A_BUCKET, None)
    name = family.name + _SUFFIXES.get(family.type, "")
    own_name = counted_as.get(family.name, "")
    return code(name), family.type, codes(labels), plain(family.documentation), own_name


def _buckets() -> str:
    seconds = ", ".join(f"{bound:g}" for bound in SECONDS)
    sizes = ", ".join(map(format_bytes, SIZES))
    return f"The buckets of durations end at {seconds} s, those of sizes at {sizes}."
