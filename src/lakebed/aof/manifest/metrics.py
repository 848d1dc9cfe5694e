"""The metrics of a manifest log. Exported with the prefix `aof2_manifest_log_`."""

from __future__ import annotations

from lakebed.base.clock import NS_PER_S, Clock
from lakebed.base.counters import Counters


class ManifestMetrics:
    """The counters and gauges of one manifest log."""

    def __init__(self, counters: Counters, clock: Clock) -> None:
        self._clock = clock
        self._snapshot_at_ns: int | None = None
        self.chunks_active = counters.gauge(
            "manifest_chunks_active"
        )  # chunk files, including the open one
        self.replay_seconds = counters.gauge("manifest_replay_seconds")
        self.crc_errors = counters.counter("manifest_crc_error_count")
        self.records = counters.counter("manifest_records")
        self.commits = counters.counter("manifest_commits")
        self.rotations = counters.counter("manifest_rotations")
        self.snapshots = counters.counter("manifest_snapshots")
        self.lag_bytes = counters.gauge("manifest_journal_lag_bytes")  # recorded but not durable
        counters.gauge("manifest_snapshot_age_seconds").follow(self._snapshot_age_seconds)

    def snapshot_taken(self) -> None:
        """Restarts the age of the last snapshot at 0.

        Called when a snapshot is taken, and when a log with a snapshot is opened, because the age
        of that snapshot is not known.
        """
        self._snapshot_at_ns = self._clock.monotonic_ns()

    def _snapshot_age_seconds(self) -> float:
        """Returns the age of the last snapshot in seconds; 0 if there is none."""
        if self._snapshot_at_ns is None:
            return 0
        return (self._clock.monotonic_ns() - self._snapshot_at_ns) / NS_PER_S
