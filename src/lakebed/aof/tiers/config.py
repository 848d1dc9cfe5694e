"""The settings of the tiers.

Section `[aof_tiers]` applies to each log separately; section `[aof_tier2]` to all logs together.
"""

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
    """The settings for the tiers of one log."""

    tiering_enabled: bool = False
    """Move segments between tiers automatically; otherwise they are moved only on request."""
    tier0_bytes_max: int = bounded(512 * MIB, minimum=256 * KIB, maximum=TIB)
    """With tiering on, maximum bytes of one log in Tier 0; at least four times `segment_bytes`."""
    pause_ms: int = bounded(250, minimum=0, maximum=60_000)
    """Compress and upload segments once the log was not flushed for this many milliseconds."""
    wait_ms_max: int = bounded(30_000, minimum=0, maximum=86_400_000)
    """Compress and upload a segment even without a pause after it waited this many milliseconds."""
    burst_percent: int = bounded(50, minimum=0, maximum=100)
    """Percentage of Tier 0 that is freed during pauses, to have room for bursts of appends."""

    def __post_init__(self) -> None:
        check(self)

    def pacing(self) -> TieringPolicy:
        return TieringPolicy(
            pause_ns=self.pause_ms * NS_PER_MS,
            wait_ns_max=self.wait_ms_max * NS_PER_MS,
            burst_percent=self.burst_percent,
        )

    def check_segments(self, segment_bytes: int) -> None:
        """Raises `BadConfig` if a segment is larger than a quarter of `tier0_bytes_max`.

        Does nothing if tiering is off.
        """
        limit = self.tier0_bytes_max // SEGMENTS_IN_TIER0_MIN
        if self.tiering_enabled and segment_bytes > limit:
            raise BadConfig(
                f"segment_bytes is {segment_bytes}, more than a quarter of tier0_bytes_max "
                f"({self.tier0_bytes_max})"
            )


@dataclass(frozen=True, kw_only=True)
class SharedTierConfig:
    """The tier settings that all logs of a store share: budgets, workers, and access to Tier 2."""

    tier0_bytes_max: int = bounded(2 * GIB, minimum=256 * KIB, maximum=64 * TIB)
    """Maximum bytes in Tier 0 of all logs with tiering on, together."""
    tier1_bytes_max: int = bounded(8 * GIB, minimum=0, maximum=64 * TIB)
    """Maximum bytes of the warm files (Tier 1) of all logs with tiering on, together."""
    compression_level: int = bounded(3, minimum=1, maximum=19)
    """Zstd compression level of warm files."""
    compression_workers: int = bounded(2, minimum=1, maximum=64)
    """Maximum number of segments compressed at the same time in the background."""
    uploads: int = bounded(2, minimum=1, maximum=64)
    """Maximum number of segments uploaded at the same time in the background."""
    downloads: int = bounded(2, minimum=1, maximum=64)
    """Maximum number of segments restored to Tier 0 at the same time in the background."""
    retry_count: int = bounded(3, minimum=0, maximum=100)
    """Number of retries after a temporary failure of a request to Tier 2."""
    retry_ms_first: int = bounded(100, minimum=0, maximum=60_000)
    """Maximum delay in milliseconds before the first retry; it doubles each time, up to 5 s."""
    url: str = ""
    """Address of Tier 2 for new logs: `s3://bucket/prefix` or a folder; empty: within the store."""
    prefix: str = "aof2"
    """Prefix of the keys of all objects in Tier 2."""
    endpoint: str = ""
    """Endpoint of an S3 store other than AWS; empty: `AWS_ENDPOINT_URL`."""
    region: str = ""
    """Region of the S3 store; empty: `AWS_REGION`."""
    access_key_id: str = ""
    """Access key for the S3 store; empty: `AWS_ACCESS_KEY_ID`."""
    secret_access_key: str = field(default="", repr=False)
    """Secret access key, which is never shown; empty: `AWS_SECRET_ACCESS_KEY`."""
    allow_http: bool = False
    """Allow unencrypted HTTP connections to an S3 store on another machine."""

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
