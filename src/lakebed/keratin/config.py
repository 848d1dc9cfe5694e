"""The settings of a topic: section `[keratin]` of the store, overridden by its `topic.json`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from lakebed.base.commit import CommitConfig
from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig, InputError
from lakebed.base.units import GIB, KIB, MIB, TIB

_YEARS_MS = 1000 * 366 * 24 * 3600 * 1000
_DAY_MS = 24 * 3600 * 1000


class Ack(Enum):
    """When an append is acknowledged."""

    AFTER_WRITE = "after_write"  # in the page cache: a power cut may lose it
    AFTER_FSYNC = "after_fsync"  # on the device
    AFTER_REPLICATED = "after_replicated"  # refused: there is no replication yet

    @classmethod
    def parse(cls, text: str) -> Ack:
        try:
            ack = cls(text)
        except ValueError:
            allowed = ", ".join(level.value for level in cls if level is not cls.AFTER_REPLICATED)
            raise InputError(f"ack {text[:40]!r}: must be one of {allowed}") from None
        return ack

    def require_possible(self) -> Ack:
        if self is Ack.AFTER_REPLICATED:
            raise InputError(
                "ack 'after_replicated': replication is not supported yet; use 'after_fsync'"
            )
        return self


@dataclass(frozen=True, kw_only=True)
class TopicConfig:
    """Configures a topic and all of its partitions."""

    segment_bytes: int = bounded(256 * MIB, minimum=16 * KIB, maximum=2 * GIB)
    """A new segment starts when the next write would make the current one larger than this."""
    index_stride_bytes: int = bounded(64 * KIB, minimum=256, maximum=64 * MIB)
    """Bytes of a log between two index entries."""
    open_segments_max: int = bounded(64, minimum=1, maximum=10_000)
    """Maximum number of segments of a partition that are kept open for reading."""
    batch_bytes_max: int = bounded(1 * MIB, minimum=4 * KIB, maximum=64 * MIB)
    """Appends are written together up to this many bytes; a larger append is written alone."""
    batch_count_max: int = bounded(4096, minimum=1, maximum=1_000_000)
    """Appends are written together up to this many messages; a larger append is written alone."""
    linger_ms_max: int = bounded(5, minimum=0, maximum=10_000)
    """Maximum time that a busy partition waits for more appends to write together."""
    queue_count_max: int = bounded(1024, minimum=1, maximum=1_000_000)
    """Maximum number of queued appends; further appends wait, or are refused as busy."""
    request_bytes_max: int = bounded(64 * MIB, minimum=4 * KIB, maximum=GIB)
    """Maximum size of an append."""
    message_bytes_max: int = bounded(16 * MIB, minimum=1, maximum=64 * MIB)
    """Maximum size of a message, with its key and headers; not checked within record batches."""
    ack: str = "after_fsync"
    """When an append is acknowledged: `after_fsync` or `after_write`."""
    sync_ms_max: int = bounded(50, minimum=0, maximum=60_000)
    """With `after_write`: the time after which written messages are synced."""
    manifest_ms: int = bounded(60_000, minimum=100, maximum=_DAY_MS)
    """Time between two writes of the manifest while messages arrive."""
    checkpoint_bytes: int = bounded(8 * MIB, minimum=4 * KIB, maximum=2 * GIB)
    """About how many bytes of the active segment are read, at most, when a partition is opened;
    more if it has many producers.
    """
    zero_fill: bool = True
    """Write zeros ahead of the end of a busy partition, which makes its syncs faster."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Free disk space below which appends are refused."""
    retention_ms: int = bounded(0, minimum=0, maximum=_YEARS_MS)
    """Remove segments whose newest message is older than this; 0: no limit."""
    retention_bytes: int = bounded(0, minimum=0, maximum=1 << 60)
    """Remove the oldest segments if the others together have at least this size; 0: no limit."""
    compact: bool = False
    """Keep only the last value of each key."""
    tombstone_ms: int = bounded(_DAY_MS, minimum=0, maximum=_YEARS_MS)
    """How long compaction keeps the tombstone of a deleted key."""
    producer_ms: int = bounded(7 * _DAY_MS, minimum=1000, maximum=_YEARS_MS)
    """How long a producer is remembered after its last message."""

    def __post_init__(self) -> None:
        check(self)
        if self.message_bytes_max > self.request_bytes_max:
            raise BadConfig(
                f"message_bytes_max is {self.message_bytes_max}, "
                f"which must not exceed request_bytes_max ({self.request_bytes_max})"
            )
        try:
            Ack.parse(self.ack).require_possible()
        except InputError as error:
            raise BadConfig(str(error)) from error

    @property
    def ack_level(self) -> Ack:
        return Ack(self.ack)

    def commit_config(self) -> CommitConfig:
        """Returns the settings of the commit barrier, which groups queued appends into commits."""
        return CommitConfig(
            batch_bytes_max=self.batch_bytes_max,
            batch_count_max=self.batch_count_max,
            delay_ms_max=self.linger_ms_max,
            queue_bytes_max=4 * max(self.batch_bytes_max, self.request_bytes_max),
            queue_count_max=self.queue_count_max,
            reserve_bytes=self.reserve_bytes,
        )
