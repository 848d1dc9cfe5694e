"""The settings of a manifest log: section `[aof_manifest]` of the configuration file."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.commit import CommitConfig
from lakebed.base.config import bounded, check
from lakebed.base.units import KIB, MIB

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class ManifestConfig:
    """Sets when records are made durable, chunks are sealed and snapshots are taken."""

    manifest_log_enabled: bool = True
    """Keep a manifest log, which records every change of a segment. Tiers require it."""
    chunk_bytes: int = bounded(256 * KIB, minimum=16 * KIB, maximum=MIB)
    """Size in bytes of a chunk file of the manifest log."""
    growth_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """Step in bytes by which a chunk file grows for a record that is larger than a chunk."""
    commit_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """Make records durable when more than this many bytes are queued."""
    commit_ms: int = bounded(250, minimum=0, maximum=60_000)
    """Make records durable after at most this many milliseconds, even if no caller waits."""
    rotation_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """Seal a chunk this many milliseconds after its first record about a segment."""
    snapshot_chunks: int = bounded(16, minimum=1, maximum=10_000)
    """Number of sealed chunks between two snapshots."""
    snapshots_kept: int = bounded(2, minimum=1, maximum=100)
    """Number of snapshots to keep."""
    queue_bytes_max: int = bounded(16 * MIB, minimum=256 * KIB, maximum=256 * MIB)
    """Maximum bytes of queued records; while the queue is full, no segment is opened or sealed."""

    def __post_init__(self) -> None:
        check(self)

    def commit_config(self) -> CommitConfig:
        """Converts these settings to those of the commit barrier, which makes records durable."""
        return CommitConfig(
            batch_bytes_max=self.commit_bytes,
            batch_count_max=1_000_000,
            delay_ms_max=self.commit_ms,
            queue_bytes_max=self.queue_bytes_max,
            queue_count_max=1_000_000,
            reserve_bytes=0,
        )
