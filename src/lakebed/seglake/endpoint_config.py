"""The settings of the S3 endpoint: which requests it accepts.

They are declared in the engine's package because they share the section `[s3]` with its settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """The settings of the S3 endpoint, with the names that the specification gives them."""

    region: str = "us-east-1"
    """The region that requests must be signed for."""
    any_region: bool = False
    """Whether requests signed for another region are accepted."""
    domain: str = ""
    """The host name `bucket.domain` addresses a bucket; `bucket.localhost` always does."""
    allow_unsigned_payload: bool = True
    """Whether requests with an unsigned body are accepted."""
    require_content_md5: bool = False
    """Whether every body needs a `Content-MD5`."""
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)
    """How long a signature is remembered to detect repeated requests; 0 turns detection off."""
    replay_block: bool = False
    """Whether a repeated request is refused instead of only logged."""
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    """The most signatures remembered."""
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)
    """The most requests that one access key may have in progress."""

    def __post_init__(self) -> None:
        check(self)
