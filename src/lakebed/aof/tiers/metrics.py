"""What the tiers count, and one look at all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.base.counters import Counters


class TierMetrics:
    """The counters of one log's tiers."""

    def __init__(self, counters: Counters) -> None:
        self.admissions_refused = counters.counter("tier0_admissions_refused")
        self.activation_queue_depth = counters.gauge("tier0_activation_queue_depth")
        self.hydration_latency_ns = counters.histogram("tier1_hydration_latency_ns")
        self.job_failures = counters.counter("tier_job_failures")
        self._segments = [counters.gauge(f"tier{tier}_segments") for tier in range(3)]
        self._bytes = [counters.gauge(f"tier{tier}_bytes") for tier in range(3)]

    def measured(self, states: Sequence[SegmentState], *, queue_depth: int) -> None:
        """Where the segments are now, and how many wait to come back."""
        self.activation_queue_depth.set(queue_depth)
        for tier, flag in enumerate(Residency):
            there = [state for state in states if state.residency & flag]
            self._segments[tier].set(len(there))
            sizes = (s.compressed_bytes if tier else s.durable_bytes for s in there)
            self._bytes[tier].set(sum(sizes))


@dataclass(frozen=True)
class TieredObservabilitySnapshot:
    """All tiers of a log at about one moment."""

    activation_queue_depth: int
    segments: tuple[int, int, int]  # by tier
    bytes: tuple[int, int, int]
    admissions_refused: int
    job_failures: int
    tier2_retries: int
    hydration_count: int
    hydration_p50_ns: int
    hydration_p90_ns: int
    hydration_p99_ns: int


def observe(log: Counters, shared: Counters) -> TieredObservabilitySnapshot:
    """From the log's counters, and those its root shares."""
    seen, common = log.snapshot(), shared.snapshot()
    latency = seen.histograms["tier1_hydration_latency_ns"]
    gauges = seen.gauges
    return TieredObservabilitySnapshot(
        activation_queue_depth=int(gauges["tier0_activation_queue_depth"]),
        segments=(
            int(gauges["tier0_segments"]),
            int(gauges["tier1_segments"]),
            int(gauges["tier2_segments"]),
        ),
        bytes=(
            int(gauges["tier0_bytes"]),
            int(gauges["tier1_bytes"]),
            int(gauges["tier2_bytes"]),
        ),
        admissions_refused=seen.counters["tier0_admissions_refused"],
        job_failures=seen.counters["tier_job_failures"],
        tier2_retries=common.counters.get("tier2_retries", 0),
        hydration_count=latency.count,
        hydration_p50_ns=latency.quantile(0.5),
        hydration_p90_ns=latency.quantile(0.9),
        hydration_p99_ns=latency.quantile(0.99),
    )
