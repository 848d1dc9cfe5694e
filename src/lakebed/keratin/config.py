"""The settings of a topic, from section `[keratin]` and from the topic's `topic.json`."""

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
            allowed = ", ".join(level.value for level in cls)
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
    """The settings of one topic and all its partitions. 0 turns a retention limit off."""

    segment_bytes: int = bounded(256 * MIB, minimum=16 * KIB, maximum=2 * GIB)
    """A new segment begins after this many bytes."""
    index_stride_bytes: int = bounded(64 * KIB, minimum=256, maximum=64 * MIB)
    """Bytes of a log between two entries of its index."""
    open_segments_max: int = bounded(64, minimum=1, maximum=10_000)
    """The number of segments of a partition that are kept open for reading."""
    batch_bytes_max: int = bounded(1 * MIB, minimum=4 * KIB, maximum=64 * MIB)
    """Appends are written together up to this many bytes."""
    batch_count_max: int = bounded(4096, minimum=1, maximum=1_000_000)
    """Appends are written together up to this many messages."""
    linger_ms_max: int = bounded(5, minimum=0, maximum=10_000)
    """A busy partition waits up to this long for more appends before it commits."""
    queue_count_max: int = bounded(1024, minimum=1, maximum=1_000_000)
    """The number of appends that may be queued; further callers wait."""
    request_bytes_max: int = bounded(64 * MIB, minimum=4 * KIB, maximum=GIB)
    """The maximum size of one append."""
    message_bytes_max: int = bounded(16 * MIB, minimum=1, maximum=64 * MIB)
    """The maximum size of one message, including its key and headers."""
    ack: str = "after_fsync"
    """When an append is acknowledged: `after_fsync` or `after_write`."""
    sync_ms_max: int = bounded(50, minimum=0, maximum=60_000)
    """Messages acknowledged `after_write` are synced after this time."""
    manifest_ms: int = bounded(60_000, minimum=100, maximum=_DAY_MS)
    """How often the manifest is written while messages arrive."""
    checkpoint_bytes: int = bounded(8 * MIB, minimum=4 * KIB, maximum=2 * GIB)
    """Opening a partition reads about this much of its newest segment."""
    zero_fill: bool = True
    """Whether zeros are written ahead of a busy partition's end, to make its syncs shorter."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Appends are refused if they would leave less than this free on the disk."""
    retention_ms: int = bounded(0, minimum=0, maximum=_YEARS_MS)
    """Segments whose newest message is older than this are removed; 0 means no limit."""
    retention_bytes: int = bounded(0, minimum=0, maximum=1 << 60)
    """The oldest segments are removed while a partition is larger than this; 0 means no limit."""
    compact: bool = False
    """Whether only the last value of each key is kept."""
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
        """Returns the settings of the commit barrier."""
        return CommitConfig(
            batch_bytes_max=self.batch_bytes_max,
            batch_count_max=self.batch_count_max,
            delay_ms_max=self.linger_ms_max,
            queue_bytes_max=4 * max(self.batch_bytes_max, self.request_bytes_max),
            queue_count_max=self.queue_count_max,
            reserve_bytes=self.reserve_bytes,
        )
