"""The settings of a manifest log: section `[aof_manifest]`."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.commit import CommitConfig
from lakebed.base.config import bounded, check
from lakebed.base.units import KIB, MIB

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class ManifestConfig:
    """When records are committed, chunks rotated and snapshots taken."""

    manifest_log_enabled: bool = True
    """Whether every change of a segment is recorded."""
    chunk_bytes: int = bounded(256 * KIB, minimum=16 * KIB, maximum=MIB)
    """The size of a chunk file."""
    growth_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """A chunk grows in steps of this size for a record that is larger than a chunk."""
    commit_bytes: int = bounded(64 * KIB, minimum=4 * KIB, maximum=MIB)
    """Records are made durable when this many bytes are queued."""
    commit_ms: int = bounded(250, minimum=0, maximum=60_000)
    """Records for which no caller waits are made durable after this long."""
    rotation_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """A chunk is sealed this long after its first record about a segment."""
    snapshot_chunks: int = bounded(16, minimum=1, maximum=10_000)
    """How many chunks are sealed from one snapshot to the next."""
    snapshots_kept: int = bounded(2, minimum=1, maximum=100)
    """How many snapshots are kept; older ones are removed."""
    queue_bytes_max: int = bounded(16 * MIB, minimum=256 * KIB, maximum=256 * MIB)
    """How many bytes may be queued; while the queue is full, no segment is opened or sealed."""

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
