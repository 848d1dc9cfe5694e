"""The settings of the S3 endpoint: which requests it accepts.

They are declared in the engine's package because they share the section `[s3]` with its settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """Settings of the S3 endpoint, by the names of the specification."""

    region: str = "us-east-1"
    """The region that requests are signed for."""
    any_region: bool = False
    """Accept requests signed for any region."""
    domain: str = ""
    """Accept `bucket.domain` as a host name; `bucket.localhost` always works."""
    allow_unsigned_payload: bool = True
    """Accept bodies that are not covered by the signature."""
    require_content_md5: bool = False
    """Require `Content-MD5` for every body."""
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)
    """Remember signatures for this time, to detect repeated ones; 0: off."""
    replay_block: bool = False
    """Refuse repeated signatures instead of only logging them."""
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    """Number of remembered signatures."""
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)
    """Concurrent requests per access key."""

    def __post_init__(self) -> None:
        check(self)
