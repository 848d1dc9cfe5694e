"""The metrics of one log, with the names under which they are exported."""

from __future__ import annotations

from lakebed.aof.errors import BackpressureKind
from lakebed.base.counters import Counters


class LogMetrics:
    """The counters, gauges and histograms of one log."""

    def __init__(self, counters: Counters) -> None:
        self.appended_bytes = counters.counter("aof_appended_bytes")
        self.appended_records = counters.counter("aof_appended_records")
        self.durable_bytes = counters.counter("aof_durable_bytes")
        self.flush_operations = counters.counter("aof_flush_operations")
        self.flush_failures = counters.counter("aof_flush_failures")
        self.metadata_retry_attempts = counters.counter("aof_flush_metadata_retry_attempts")
        self.metadata_retry_failures = counters.counter("aof_flush_metadata_retry_failures")
        self.segment_rollovers = counters.counter("aof_segment_rollovers")
        self.segments_sealed = counters.counter("aof_segments_sealed")
        self.would_block = {
            kind: counters.counter(f"would_block_{kind.value}") for kind in BackpressureKind
        }
        self.append_latency_ns = counters.histogram("aof_append_latency_ns")
        self.flush_latency_ns = counters.histogram("aof_flush_latency_ns")
        self.admission_latency_ns = counters.histogram("aof_admission_latency_ns")
        self.segment_bytes = counters.histogram("aof_segment_bytes")
        self.spare_bytes = counters.gauge("aof_spare_bytes")
        self.spare_filled_bytes = counters.gauge(
            "aof_spare_filled_bytes"
        )  # the zero-filled part of spare_bytes
        self.commit_duration_ns = counters.histogram(
            "commit_duration_ns"
        )  # set by the commit barrier
