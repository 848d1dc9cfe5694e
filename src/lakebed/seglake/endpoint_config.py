"""The settings of the S3 endpoint: how requests are taken, whatever serves them.

They stand in section `[s3]` together with those of the engine, so they are declared beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """By the specification's names."""

    region: str = "us-east-1"
    any_region: bool = False  # whether requests may be signed for another one
    domain: str = ""  # the base of virtual-hosted names; "" also takes <bucket>.localhost
    allow_unsigned_payload: bool = True
    require_content_md5: bool = False
    require_if_match_buckets: str = ""  # names, separated by commas; * is all
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)  # 0: not looked for
    replay_block: bool = False
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)  # of one access key

    def __post_init__(self) -> None:
        check(self)
