"""The settings of a manifest log: section `[aof_manifest]`."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.commit import CommitConfig
from lakebed.base.config import bounded, check
from lakebed.base.units import KIB, MIB

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class ManifestConfig:
    """Sets when records are committed, chunks rotated and snapshots taken."""

    manifest_log_enabled: bool = True
    """Record every change to a segment."""
    chunk_bytes: int = bounded(256 * KIB, minimum=16 * KIB, maximum=MIB)
    """Size of a chunk."""
    growth_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """Step by which a chunk grows for a record that is larger."""
    commit_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """Make records durable when this many bytes are queued."""
    commit_ms: int = bounded(250, minimum=0, maximum=60_000)
    """Make records without a waiting caller durable after this time."""
    rotation_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """Seal a chunk this long after its first record."""
    snapshot_chunks: int = bounded(16, minimum=1, maximum=10_000)
    """Number of sealed chunks between two snapshots."""
    snapshots_kept: int = bounded(2, minimum=1, maximum=100)
    """Number of snapshots to keep."""
    queue_bytes_max: int = bounded(16 * MIB, minimum=256 * KIB, maximum=256 * MIB)
    """Maximum size of queued records; above it segments are neither opened nor sealed."""

    def __post_init__(self) -> None:
        check(self)

    def commit_config(self) -> CommitConfig:
        """Returns the same limits as the settings of the commit barrier."""
        return CommitConfig(
            batch_bytes_max=self.commit_bytes,
            batch_count_max=1_000_000,
            delay_ms_max=self.commit_ms,
            queue_bytes_max=self.queue_bytes_max,
            queue_count_max=1_000_000,
            reserve_bytes=0,
        )
