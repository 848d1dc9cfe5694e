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
    """What requests are signed for."""
    any_region: bool = False
    """Whether they may be signed for another region."""
    domain: str = ""
    """`bucket.domain` is a name of the bucket then; `bucket.localhost` always is."""
    allow_unsigned_payload: bool = True
    """Whether a body may come without a signature of its own."""
    require_content_md5: bool = False
    """Whether every body needs a `Content-MD5`."""
    replay_ttl_ms: int = bounded(0, minimum=0, maximum=7 * 24 * 3_600_000)
    """A signature is remembered so long, to notice that it comes again; 0: not at all."""
    replay_block: bool = False
    """Whether such a request is refused, and not only logged."""
    replay_cache_max: int = bounded(100_000, minimum=1, maximum=100_000_000)
    """So many signatures are remembered."""
    inflight_max: int = bounded(32, minimum=1, maximum=1_000_000)
    """One access key has so many requests under way."""

    def __post_init__(self) -> None:
        check(self)
