"""The settings of the tiers: section `[aof_tiers]` for a log, `[aof_tier2]` for what all share."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.aof.tiers.obstore_store import S3Options
from lakebed.aof.tiers.tiering_policy import TieringPolicy
from lakebed.aof.tiers.warm_file import Compression
from lakebed.base.clock import NS_PER_MS
from lakebed.base.config import bounded, check
from lakebed.base.errors import BadConfig
from lakebed.base.retry import RetryPolicy
from lakebed.base.units import GIB, KIB, MIB, TIB

SEGMENTS_IN_TIER0_MIN = 4


@dataclass(frozen=True, kw_only=True)
class TierConfig:
    """One log. While tiering is off its segments stay where they are until somebody moves them."""

    tiering_enabled: bool = False
    """Whether segments are moved between tiers by themselves."""
    tier0_bytes_max: int = bounded(512 * MIB, minimum=256 * KIB, maximum=TIB)
    """A log has so much in Tier 0; at least four segments."""
    pause_ms: int = bounded(250, minimum=0, maximum=60_000)
    """Segments are compressed and uploaded when nothing was flushed for so long; 0: at once."""
    wait_ms_max: int = bounded(30_000, minimum=0, maximum=86_400_000)
    """They also are when they have waited so long for such a pause."""
    burst_percent: int = bounded(50, minimum=0, maximum=100)
    """So much of Tier 0 is made free in pauses, for bursts of appends."""

    def __post_init__(self) -> None:
        check(self)

    def pacing(self) -> TieringPolicy:
        return TieringPolicy(
            pause_ns=self.pause_ms * NS_PER_MS,
            wait_ns_max=self.wait_ms_max * NS_PER_MS,
            burst_percent=self.burst_percent,
        )

    def check_segments(self, segment_bytes: int) -> None:
        """A segment may take a quarter of the log's Tier 0 at most."""
        limit = self.tier0_bytes_max // SEGMENTS_IN_TIER0_MIN
        if self.tiering_enabled and segment_bytes > limit:
            raise BadConfig(
                f"segment_bytes is {segment_bytes}, more than a quarter of tier0_bytes_max "
                f"({self.tier0_bytes_max})"
            )


@dataclass(frozen=True, kw_only=True)
class SharedTierConfig:
    """What the logs of a root share: budgets, workers, and where Tier 2 is."""

    tier0_bytes_max: int = bounded(2 * GIB, minimum=256 * KIB, maximum=64 * TIB)
    """All logs together have so much in Tier 0."""
    tier1_bytes_max: int = bounded(8 * GIB, minimum=0, maximum=64 * TIB)
    """All logs together have so much as warm files."""
    compression_level: int = bounded(3, minimum=1, maximum=19)
    """The level of zstd."""
    compression_workers: int = bounded(2, minimum=1, maximum=64)
    """So many segments are compressed at the same time."""
    uploads: int = bounded(2, minimum=1, maximum=64)
    """So many segments are uploaded at the same time."""
    downloads: int = bounded(2, minimum=1, maximum=64)
    """So many segments are brought back at the same time."""
    retry_count: int = bounded(3, minimum=0, maximum=100)
    """A passing failure of Tier 2 is tried again so often."""
    retry_ms_first: int = bounded(100, minimum=0, maximum=60_000)
    """The wait before the first of these tries, in ms; then it doubles."""
    url: str = ""
    """Tier 2 of new logs: `s3://bucket/prefix`, or a folder; empty: the store's own objects."""
    prefix: str = "aof2"
    """How keys in Tier 2 begin."""
    endpoint: str = ""
    """The address of an S3 store other than AWS; empty: `AWS_ENDPOINT_URL`."""
    region: str = ""
    """The region of the S3 store; empty: `AWS_REGION`."""
    access_key_id: str = ""
    """The access key for it; empty: `AWS_ACCESS_KEY_ID`."""
    secret_access_key: str = field(default="", repr=False)
    """The secret of that key, never shown; empty: `AWS_SECRET_ACCESS_KEY`."""
    allow_http: bool = False
    """Whether another machine is spoken to without encryption."""

    def __post_init__(self) -> None:
        check(self)

    def s3_options(self) -> S3Options:
        return S3Options(
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            allow_http=self.allow_http,
        )

    def compression(self) -> Compression:
        return Compression(level=self.compression_level)

    def retry_policy(self) -> RetryPolicy:
        first_ms = float(self.retry_ms_first)
        return RetryPolicy(
            attempts=self.retry_count + 1,
            delay_ms_first=first_ms,
            delay_ms_max=max(first_ms, 5_000.0),
        )
