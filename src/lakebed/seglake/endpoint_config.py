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
    """Domain below which a bucket can be part of the host name, as in `bucket.<domain>`; if empty,
    `localhost` and `s3.localhost`.
    """
    allow_unsigned_payload: bool = True
    """Accept requests with a body that the signature does not cover."""
    require_content_md5: bool = False
    """Require the header `Content-MD5` in uploads of objects and parts."""
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)
    """How long signatures are remembered to detect repeated requests, except those with presigned
    URLs; 0 turns this off.
    """
    replay_block: bool = False
    """Refuse requests with a repeated signature, instead of only logging a warning; has an effect
    only if `replay_ttl_ms` is not 0.
    """
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    """Maximum number of signatures that are remembered; above it, the oldest are forgotten."""
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)
    """Maximum concurrent requests of an access key that has no limit of its own; further requests
    wait briefly, then fail. The first credentials have no limit.
    """

    def __post_init__(self) -> None:
        check(self)
