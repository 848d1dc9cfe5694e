"""The settings of the object store and its S3 endpoint: section `[s3]`."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.errors import BadBucketName
from lakebed.seglake.model import Versioning
from lakebed.seglake.names import check_bucket_name

ALL_BUCKETS = "*"  # in `require_if_match_buckets`

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class SeglakeConfig(EndpointConfig):
    """Configures the object store and the S3 endpoint."""

    segment_bytes: int = bounded(1 * GIB, minimum=64 * KIB, maximum=16 * GIB)
    """Size at which a segment is sealed and a new one is started."""
    segment_idle_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """Seal a segment after nothing was written to it for this long."""
    sync_interval_ms: int = bounded(100, minimum=0, maximum=10_000)
    """Maximum time until a change that no caller waits for is committed; other changes are
    committed without delay.
    """
    sync_bytes: int = bounded(128 * MIB, minimum=4 * MIB, maximum=GIB)
    """Maximum bytes queued for commits; when they are reached, further writes wait or are refused
    as busy.
    """
    max_object_size: int = bounded(5 * GIB, minimum=0, maximum=50 * TIB)
    """Maximum size of an object; 0 means no limit."""
    part_bytes_min: int = bounded(5 * MIB, minimum=1, maximum=GIB)
    """Minimum size of each part of a multipart upload, except the last part."""
    cache_bytes: int = bounded(64 * MIB, minimum=0, maximum=64 * GIB)
    """Memory for the cache of verified chunks."""
    open_segments_max: int = bounded(64, minimum=1, maximum=10_000)
    """Maximum number of idle segment files kept open for reading; the same number may also be kept
    open for writing.
    """
    readers_max: int = bounded(16, minimum=1, maximum=1000)
    """Maximum number of idle database connections kept open for reading metadata."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Disk space that must stay free; writes of object data that would use it are refused."""
    require_if_match_buckets: str = ""
    """Buckets, separated by commas, where overwriting an object needs `If-Match`; `*` means all."""
    spec_version_listing: bool = False
    """In an unversioned bucket, list no versions instead of listing `null` versions."""
    default_versioning: str = "enabled"
    """Versioning of new buckets: `enabled` or `unversioned`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.default_versioning not in ("enabled", "unversioned"):
            raise BadConfig(
                f"default_versioning is {self.default_versioning!r}: "
                "it must be 'enabled' or 'unversioned'"
            )
        for name in sorted(self.if_match_buckets - {ALL_BUCKETS}):
            try:
                check_bucket_name(name)
            except BadBucketName as error:
                raise BadConfig(f"require_if_match_buckets: {error}") from error

    @property
    def if_match_buckets(self) -> frozenset[str]:
        """The names in `require_if_match_buckets`; `ALL_BUCKETS` among them means all buckets."""
        names = (name.strip() for name in self.require_if_match_buckets.split(","))
        return frozenset(filter(None, names))

    @property
    def versioning(self) -> Versioning:
        """The versioning of a bucket that is created without setting it."""
        enabled = self.default_versioning == "enabled"
        return Versioning.ENABLED if enabled else Versioning.DISABLED
