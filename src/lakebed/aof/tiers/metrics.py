"""The metrics of a log's tiers, and an object that holds their values at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.base.counters import Counters


class TierMetrics:
    """The counters and gauges of one log's tiers."""

    def __init__(self, counters: Counters) -> None:
        self.admissions_refused = counters.counter("tier0_admissions_refused")
        self.activation_queue_depth = counters.gauge("tier0_activation_queue_depth")
        self.hydration_latency_ns = counters.histogram("tier1_hydration_latency_ns")
        self.job_failures = counters.counter("tier_job_failures")
        self._segments = [counters.gauge(f"tier{tier}_segments") for tier in range(3)]
        self._bytes = [counters.gauge(f"tier{tier}_bytes") for tier in range(3)]

    def measured(self, states: Sequence[SegmentState], *, queue_depth: int) -> None:
        """Sets the gauges: segments and bytes in each tier, and segments waiting to be restored."""
        self.activation_queue_depth.set(queue_depth)
        for tier, flag in enumerate(Residency):
            in_tier = [state for state in states if state.residency & flag]
            self._segments[tier].set(len(in_tier))
            sizes = (state.compressed_bytes if tier else state.durable_bytes for state in in_tier)
            self._bytes[tier].set(sum(sizes))


@dataclass(frozen=True)
class TieredObservabilitySnapshot:
    """The metrics of all tiers of a log at approximately one moment.

    `tier2_retries` is the number of retries for all logs of the root together.
    """

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
    """Returns the current values from a log's counters and the counters that all logs share."""
    own, root = log.snapshot(), shared.snapshot()
    latency = own.histograms["tier1_hydration_latency_ns"]
    gauges = own.gauges
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
        admissions_refused=own.counters["tier0_admissions_refused"],
        job_failures=own.counters["tier_job_failures"],
        tier2_retries=root.counters.get("tier2_retries", 0),
        hydration_count=latency.count,
        hydration_p50_ns=latency.quantile(0.5),
        hydration_p90_ns=latency.quantile(0.9),
        hydration_p99_ns=latency.quantile(0.99),
    )
