"""The settings of the object store and its S3 endpoint: section `[s3]`."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.base.config import bounded
from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, KIB, MIB, TIB
from lakebed.seglake.endpoint_config import EndpointConfig
from lakebed.seglake.model import Versioning

_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, kw_only=True)
class SeglakeConfig(EndpointConfig):
    """Configures the object store and the S3 endpoint. Chunk size and part limits are fixed."""

    segment_bytes: int = bounded(1 * GIB, minimum=64 * KIB, maximum=16 * GIB)
    """Size after which a new segment starts."""
    segment_idle_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """Seal a segment that was not written to for this time."""
    sync_interval_ms: int = bounded(100, minimum=0, maximum=10_000)
    """How long a commit waits for more requests, at most."""
    sync_bytes: int = bounded(128 * MIB, minimum=4 * MIB, maximum=GIB)
    """Maximum bytes waiting for a commit."""
    max_object_size: int = bounded(5 * GIB, minimum=0, maximum=50 * TIB)
    """Maximum size of an object; 0: no limit."""
    part_bytes_min: int = bounded(5 * MIB, minimum=1, maximum=GIB)
    """Minimum size of a part of an upload, except the last."""
    cache_bytes: int = bounded(64 * MIB, minimum=0, maximum=64 * GIB)
    """Memory for verified chunks."""
    open_segments_max: int = bounded(64, minimum=1, maximum=10_000)
    """Number of segments kept open for reading."""
    readers_max: int = bounded(16, minimum=1, maximum=1000)
    """Number of metadata connections kept open for reading."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Disk space that writes leave free."""
    require_if_match_buckets: str = ""
    """Buckets where overwriting an object needs `If-Match`, separated by commas; `*` means all."""
    spec_version_listing: bool = False
    """List no versions of an unversioned bucket, instead of `null` versions."""
    default_versioning: str = "enabled"
    """Versioning of new buckets: `enabled`, or `unversioned`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.default_versioning not in ("enabled", "unversioned"):
            raise BadConfig(
                f"default_versioning is {self.default_versioning!r}: "
                "it must be enabled or unversioned"
            )

    @property
    def versioning(self) -> Versioning:
        """The versioning of a new bucket whose request does not set it."""
        enabled = self.default_versioning == "enabled"
        return Versioning.ENABLED if enabled else Versioning.DISABLED
