"""The settings that decide which requests the S3 endpoint accepts.

They are declared in this package because the endpoint and the object store share section `[s3]`.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded, check


@dataclass(frozen=True, kw_only=True)
class EndpointConfig:
    """Settings that decide which requests the S3 endpoint accepts."""

    region: str = "us-east-1"
    """Region that requests must be signed for."""
    any_region: bool = False
    """Accept requests signed for any region."""
    domain: str = ""
    """Accept the host `bucket.<domain>`; if empty, `bucket.localhost` and `bucket.s3.localhost`."""
    allow_unsigned_payload: bool = True
    """Accept request bodies that the signature does not cover."""
    require_content_md5: bool = False
    """Require the header `Content-MD5` in uploads of objects and parts."""
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)
    """How long to remember signatures, except of presigned URLs, to detect repeats; 0: do not."""
    replay_block: bool = False
    """Refuse requests with a repeated signature, instead of only logging a warning."""
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    """Maximum number of request signatures to remember; beyond it, the oldest are forgotten."""
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)
    """Maximum concurrent requests per access key without its own limit; more wait, then fail. The
    first credentials have no limit.
    """

    def __post_init__(self) -> None:
        check(self)
