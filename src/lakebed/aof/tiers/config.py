"""The settings of the tiers: section `[aof_tiers]` for a log, `[aof_tier2]` for what all share."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakebed.aof.tiers.obstore_store import S3Options
from lakebed.aof.tiers.pacing import Pacing
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
    tier0_bytes_max: int = bounded(512 * MIB, minimum=256 * KIB, maximum=TIB)
    pause_ms: int = bounded(250, minimum=0, maximum=60_000)  # 0: appends do not go first
    wait_ms_max: int = bounded(30_000, minimum=0, maximum=86_400_000)
    burst_percent: int = bounded(50, minimum=0, maximum=100)  # of Tier 0, kept for bursts

    def __post_init__(self) -> None:
        check(self)

    def pacing(self) -> Pacing:
        return Pacing(
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
    tier1_bytes_max: int = bounded(8 * GIB, minimum=0, maximum=64 * TIB)
    compression_level: int = bounded(3, minimum=1, maximum=19)
    compression_workers: int = bounded(2, minimum=1, maximum=64)
    uploads: int = bounded(2, minimum=1, maximum=64)
    downloads: int = bounded(2, minimum=1, maximum=64)
    retry_count: int = bounded(3, minimum=0, maximum=100)
    retry_ms_first: int = bounded(100, minimum=0, maximum=60_000)
    url: str = ""  # "": the store's own object store; without a store, the folder `tier2`
    prefix: str = "aof2"
    endpoint: str = ""  # of an S3 store; this and the next three from `AWS_…` if they are empty
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    allow_http: bool = False  # to another machine

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
