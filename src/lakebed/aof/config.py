"""The settings of a log and of the log manager.

In the configuration file, these are the sections `[aof]`, `[aof_flush]`, `[aof_retention]` and
`[aof_manager]`. The settings of the manifest log and of the tiers are in other modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.tiers.config import TierConfig
from lakebed.base.commit import CommitConfig
from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB

_YEARS_MS = 1000 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class FlushConfig:
    """Sets when appended bytes are flushed automatically, and when appends are refused."""

    flush_bytes: int = bounded(8 * MIB, minimum=4 * KIB, maximum=GIB)
    """Flush when more than this many bytes are queued."""
    flush_ms: int = bounded(5, minimum=0, maximum=60_000)
    """Flush at most this many milliseconds after an append, even if no caller waits for it."""
    max_unflushed_bytes: int = bounded(64 * MIB, minimum=4 * KIB, maximum=16 * GIB)
    """Refuse appends while this many bytes are not durable."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Disk space in bytes to keep free; flushes that would use it fail, and appends are refused."""

    def __post_init__(self) -> None:
        check(self)
        if self.flush_bytes > self.max_unflushed_bytes:
            raise BadConfig(
                f"flush_bytes is {self.flush_bytes}, "
                f"more than max_unflushed_bytes ({self.max_unflushed_bytes})"
            )

    def commit_config(self) -> CommitConfig:
        """Converts these settings to those of the commit barrier, which runs the flushes."""
        return CommitConfig(
            batch_bytes_max=self.flush_bytes,
            batch_count_max=1_000_000,
            delay_ms_max=self.flush_ms,
            queue_bytes_max=self.max_unflushed_bytes,
            queue_count_max=10_000_000,
            reserve_bytes=self.reserve_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class RetentionConfig:
    """Limits the age, size and number of sealed segments; a limit of 0 means no limit.

    While a limit is exceeded, the oldest segments are deleted or moved to `archive/`. The newest
    sealed segment is never removed, and neither are segments that a pin or a follower in the
    writer's process needs, nor segments newer than those.
    """

    age_ms_max: int = bounded(0, minimum=0, maximum=_YEARS_MS)
    """Remove segments that were sealed more than this many milliseconds ago; 0: no limit."""
    bytes_max: int = bounded(0, minimum=0, maximum=1 << 60)
    """Remove the oldest segments while the sealed ones exceed this many bytes; 0: no limit."""
    count_max: int = bounded(0, minimum=0, maximum=1_000_000)
    """Remove the oldest segments while there are more sealed segments than this; 0: no limit."""
    archive: bool = False
    """Move removed segments to `archive/` instead of deleting them."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class ManagerConfig:
    """The settings of the log manager, which apply to the whole store."""

    spare_bytes_max: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Maximum bytes of segment files and zeros prepared ahead of need, for the store; 0: none."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class AofConfig:
    """The settings of one log."""

    segment_bytes: int = bounded(64 * MIB, minimum=64 * KIB, maximum=GIB)
    """Size of a segment file in bytes, a power of two. A record must fit in one segment."""
    preallocate_segments: int = bounded(1, minimum=0, maximum=8)
    """Maximum number of segment files created ahead of need."""
    zero_fill_spares: bool = True
    """Zero-fill the segment files that a busy log creates ahead of need; speeds up its flushes."""
    enable_sparse_index: bool = False
    """Create an index file for each sealed segment, which speeds up searches by time."""
    flush: FlushConfig = field(default_factory=FlushConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)
    manifest: ManifestConfig = field(default_factory=ManifestConfig)
    tiers: TierConfig = field(default_factory=TierConfig)

    def __post_init__(self) -> None:
        check(self)
        if self.segment_bytes & (self.segment_bytes - 1):
            raise BadConfig(f"segment_bytes is {self.segment_bytes}, which is not a power of two")
        self.tiers.check_segments(self.segment_bytes)
