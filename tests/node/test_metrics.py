"""The exporter: its names, its histograms, its labels, and both of its formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read_text

from lakebed.aof.errors import BackpressureKind
from lakebed.base.counters import Counters, Histogram
from lakebed.http.request import Request, RequestLabel
from lakebed.http.response import Response
from lakebed.node.metric_names import MANIFEST_PREFIX, SECONDS, exported
from lakebed.node.metrics import (
    OPEN_METRICS,
    SIZES,
    TEXT,
    NodeFacts,
    accepted,
    counted_totals,
    cumulative,
    rendered,
)
from lakebed.node.observer import OTHER, TOLD_APART_MAX, Observer
from lakebed.node.readiness import ReadinessReport
from lakebed.store.counters import PartCounters
from lakebed.store.store import Store
from tests.node.requests import request_of

# What the specifications call by name, as families are called: samples of counters have `_total`
# behind that.
SPECIFIED = {
    MANIFEST_PREFIX + "manifest_chunks_active": "gauge",
    MANIFEST_PREFIX + "manifest_replay_seconds": "gauge",
    MANIFEST_PREFIX + "manifest_crc_error_count": "counter",
    MANIFEST_PREFIX + "manifest_snapshot_age_seconds": "gauge",
    "aof_flush_metadata_retry_attempts": "counter",
    "aof_flush_metadata_retry_failures": "counter",
    **{f"would_block_{kind.value}": "counter" for kind in BackpressureKind},
    # Without a name of their own: what is to be counted, as it is called here.
    "aof_appended_bytes": "counter",
    "aof_durable_bytes": "counter",
    "aof_appended_records": "counter",
    "aof_flush_operations": "counter",
    "aof_flush_failures": "counter",
    "aof_segment_rollovers": "counter",
    "aof_recovery_duration_seconds": "gauge",
    "aof_append_latency_seconds": "histogram",
    "aof_flush_latency_seconds": "histogram",
    "aof_segment_bytes": "histogram",
    "aof_admission_latency_seconds": "histogram",
    "aof_tier1_hydration_latency_seconds": "histogram",
    "aof_tier0_activation_queue_depth": "gauge",
    "aof_tier2_retries": "counter",
    **{f"aof_tier{tier}_segments": "gauge" for tier in range(3)},
    # Of the object store: how much is in it, manifests_total without what is of counters alone.
    "seglake_objects": "gauge",
    "seglake_segments": "gauge",
    "seglake_bytes_live": "gauge",
    "seglake_live_manifests": "gauge",
    "seglake_manifests": "gauge",
    # Of its requests: requests_total{op,status_class}, inflight{op} and so on.
    "lakebed_requests": "counter",
    "lakebed_inflight": "gauge",
    "lakebed_bytes_in": "counter",
    "lakebed_bytes_out": "counter",
    "lakebed_replay_detected": "counter",
    "lakebed_request_duration_seconds": "histogram",
    "lakebed_requests_by_bucket": "counter",
    "lakebed_request_duration_by_bucket_seconds": "histogram",
    "lakebed_requests_by_key": "counter",
    "lakebed_request_duration_by_key_seconds": "histogram",
}


DISK = ReadinessReport(100, 50, ())
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


def facts_of(*observers: Observer) -> NodeFacts:
    seen = [one.snapshot() for one in observers]
    return NodeFacts(
        requests=seen,
        connections={one.endpoint: 3 for one in seen},
        replays_detected=2,
    )


def families(
    facts: NodeFacts, counts: list[PartCounters], kind: str = TEXT, *, disk: ReadinessReport = DISK
) -> dict[str, Metric]:
    text = rendered(facts, disk, counts, content_type=kind).decode()
    read = read_open if kind == OPEN_METRICS else read_text
    found = list(read(text))
    assert len({one.name for one in found}) == len(found), "a name has one family"
    return {one.name: one for one in found}


def finished(observer: Observer, asked: RequestLabel | None, status: int = 200) -> None:
    request = request_of("/")
    request.label = asked
    observer.done(request, status, 10, 20, 2_000_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        log = opened.log("orders")
        log.flush(log.append_record(b"figs"))
        topic = opened.topic("events", partitions=2)
        topic.append_batch([b"a", b"b"], partition=1).result()
        topic.group('odd "name"\\').lease(max_messages=1)
        opened.bucket("photos").put("one", b"x" * 1000)
        yield opened


def everything(store: Store) -> list[PartCounters]:
    totals = store.object_totals()
    assert totals is not None
    return [*store.counts(), counted_totals(totals)]


@pytest.mark.parametrize("kind", [TEXT, OPEN_METRICS])
def test_everything_that_the_specifications_name_is_there(store: Store, kind: str) -> None:
    observer = Observer("s3")
    finished(observer, RequestLabel("PutObject", "photos", "LAKE"))
    found = families(facts_of(observer), everything(store), kind)
    for name, metric_type in SPECIFIED.items():
        assert name in found, name
        assert found[name].type == metric_type, name
        assert found[name].documentation
    for name, family in found.items():
        is_told = family.samples or name == "lakebed_inflight"  # nothing is under way
        assert is_told or name.startswith("lakebed"), name


@pytest.mark.parametrize("kind", [TEXT, OPEN_METRICS])
def test_things_are_told_apart_by_their_labels(store: Store, kind: str) -> None:
    found = families(facts_of(), everything(store), kind)

    def values(name: str) -> dict[tuple[str, ...], float]:
        samples = [one for one in found[name].samples if one.name.endswith("_total")]
        return {tuple(one.labels.values()): one.value for one in samples}

    assert values("aof_appended_records") == {("orders",): 1}
    labels = [one.labels for one in found["keratin_commit_items"].samples]
    assert {"partition": "0", "topic": "events"} in labels
    assert {"partition": "1", "topic": "events"} in labels
    assert found["seglake_bytes_live"].samples[0][:3] == ("seglake_bytes_live", {}, 1000)
    groups = [one.labels for one in found["stroma_folds"].samples]
    assert {"group": 'odd "name"\\', "partition": "1", "topic": "events"} in groups


def test_names_of_two_engines_do_not_meet(store: Store) -> None:
    """Each counter of each engine has a family of its own, with one set of labels."""
    found = families(facts_of(), everything(store))
    for name, family in found.items():
        shapes = {tuple(sorted(one.labels.keys() - {"le"})) for one in family.samples}
        assert len(shapes) <= 1, (name, shapes)


def test_a_duration_is_told_in_seconds_and_what_has_a_name_keeps_it() -> None:
    assert exported("aof", "aof_flush_latency_ns")[::2] == (
        "aof_flush_latency_seconds",
        1_000_000_000,
    )
    assert exported("aof", "manifest_commits").name == "aof2_manifest_log_manifest_commits"
    assert exported("aof", "would_block_tail").name == "would_block_tail"
    assert exported("keratin", "commit_bytes").name == "keratin_commit_bytes"
    assert exported("stroma", "stroma_folds").name == "stroma_folds"
    assert exported("seglake", "new_thing").help == "New thing of seglake."


def test_a_histogram_has_fixed_buckets_that_only_grow() -> None:
    histogram = Histogram()
    for value_ns in (10, 400_000, 900_000, 30_000_000, 20_000_000_000, 10**12):
        histogram.observe(value_ns)
    seen = histogram.snapshot()
    counts = cumulative(seen, [bound * 1e9 for bound in SECONDS])
    assert counts == [1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5]
    counters = Counters()
    counters.histogram("x_ns").observe(400_000)
    counters.histogram("y").observe(70_000)
    found = families(facts_of(), [PartCounters("aof", {"log": "a"}, counters.snapshot())])
    told = {one.labels.get("le", one.name): one.value for one in found["aof_x_seconds"].samples}
    assert (told["0.0005"], told["0.0001"], told["+Inf"]) == (1, 0, 1)
    assert told["aof_x_seconds_sum"] == pytest.approx(0.0004)
    assert told["aof_x_seconds_count"] == 1
    sizes = {one.labels.get("le") for one in found["aof_y"].samples} - {None}
    assert len(sizes) == len(SIZES) + 1


def test_labels_cannot_break_out_of_their_line() -> None:
    counters = Counters()
    counters.counter("things").add(7)
    hostile = 'a"} 1\nevil_total{x="\\'
    for kind in (TEXT, OPEN_METRICS):
        found = families(
            facts_of(), [PartCounters("aof", {"log": hostile}, counters.snapshot())], kind
        )
        (sample,) = found["aof_things"].samples
        assert (sample.labels, sample.value) == ({"log": hostile}, 7)
        assert "evil" not in found


def test_requests_are_counted_by_what_they_ask_and_how_they_ended() -> None:
    s3, http = Observer("s3"), Observer("http")
    for status in (200, 204, 404):
        finished(s3, RequestLabel("GetObject", "photos", "LAKE"), status)
    finished(http, None, 401)
    http.done(None, 400, 0, 5, 0)  # it never became a request
    found = families(facts_of(s3, http), [])
    counted = {tuple(one.labels.values()): one.value for one in found["lakebed_requests"].samples}
    assert counted == {
        ("s3", "GetObject", "2xx"): 2,
        ("s3", "GetObject", "4xx"): 1,
        ("http", "none", "4xx"): 2,
    }
    (of_bucket, _) = found["lakebed_requests_by_bucket"].samples
    assert of_bucket.labels == {"bucket": "photos", "endpoint": "s3", "status_class": "2xx"}
    sizes = {one.labels["endpoint"]: one.value for one in found["lakebed_bytes_out"].samples}
    assert sizes == {"s3": 60, "http": 25}
    took = [one for one in found["lakebed_request_duration_seconds"].samples if "s3" in str(one)]
    told = {one.labels.get("le", one.name): one.value for one in took}
    assert (told["0.001"], told["0.005"], told["60.0"], told["+Inf"]) == (0, 3, 3, 3)
    assert told["lakebed_request_duration_seconds_sum"] == pytest.approx(0.006)
    assert found["lakebed_replay_detected"].samples[0].value == 2
    assert found["lakebed_connections"].samples[0].value == 3


def test_buckets_are_told_apart_up_to_a_number_and_never_by_what_is_none() -> None:
    observer = Observer("s3")
    for none in ("x" * 64, "\ud800", "a\nb"):
        finished(observer, RequestLabel("GetObject", none))
    assert set(observer.snapshot().by_bucket.durations) == {OTHER}
    for number in range(TOLD_APART_MAX + 10):
        finished(observer, RequestLabel("GetObject", f"bucket-{number}"))
    finished(observer, RequestLabel("GetObject", "bucket-1"))
    seen = observer.snapshot().by_bucket
    assert len(seen.durations) == TOLD_APART_MAX
    assert seen.requests[OTHER, "2xx"] == 3 + 11
    assert seen.requests["bucket-1", "2xx"] == 2
    families(facts_of(observer), [])


def test_the_process_and_the_build_are_told() -> None:
    found = families(facts_of(), [])
    (build,) = found["lakebed_build_info"].samples
    assert build.value == 1
    assert {"version", "python", "kernels"} == set(build.labels)
    assert found["process_resident_memory_bytes"].samples[0].value > 1_000_000
    assert found["lakebed_disk_free_bytes"].samples[0].value == 100
    assert found["lakebed_disk_reserve_bytes"].samples[0].value == 50
    assert found["lakebed_not_writable"].samples[0].value == 0
    unknown = ReadinessReport(None, 50, ("the store is closed",))
    assert "lakebed_disk_free_bytes" not in families(facts_of(), [], disk=unknown), "it is not 0"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/openmetrics-text", OPEN_METRICS),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", OPEN_METRICS),
        ("Application/OpenMetrics-Text;version=0.0.1,text/plain;q=0.5", OPEN_METRICS),
        ("application/openmetrics-text;version=9.0.0,text/plain", TEXT),
        ("application/openmetrics-text;q=0.0,text/plain", TEXT),
        (PROMETHEUS, OPEN_METRICS),
        (",;=,", TEXT),
    ],
)
def test_who_asks_for_open_metrics_gets_it(accept: str, kind: str) -> None:
    assert accepted(accept) == kind


def test_what_is_under_way_is_told_by_operation() -> None:
    observer = Observer("s3")
    requests: list[Request] = [request_of("/a"), request_of("/b")]
    handler = observer.wrapped(_never)
    for request in requests:
        with pytest.raises(RuntimeError):
            handler(request)
    requests[0].label = RequestLabel("GetObject")
    assert observer.snapshot().inflight == {"GetObject": 1, "none": 1}
    for request in requests:
        observer.done(request, 500, 0, 0, 0)
    assert observer.snapshot().inflight == {}


def _never(_request: Request) -> Response:
    raise RuntimeError
