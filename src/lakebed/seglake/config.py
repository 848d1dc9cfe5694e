"""The settings of the object store and its endpoint: section `[s3]`."""

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
    """A new segment begins behind so many bytes."""
    segment_idle_ms: int = bounded(600_000, minimum=100, maximum=_DAY_MS)
    """A segment that nobody wrote to for so long is sealed."""
    sync_interval_ms: int = bounded(100, minimum=0, maximum=10_000)
    """A commit waits so long for more requests at most."""
    sync_bytes: int = bounded(128 * MIB, minimum=4 * MIB, maximum=GIB)
    """So many bytes may wait for a commit."""
    max_object_size: int = bounded(5 * GIB, minimum=0, maximum=50 * TIB)
    """Objects of more bytes are refused; 0 sets no limit."""
    part_bytes_min: int = bounded(5 * MIB, minimum=1, maximum=GIB)
    """Parts of an upload have so many bytes, but for the last."""
    cache_bytes: int = bounded(64 * MIB, minimum=0, maximum=64 * GIB)
    """So many bytes of checked chunks are kept in memory."""
    open_segments_max: int = bounded(64, minimum=1, maximum=10_000)
    """So many segments are kept open for reading."""
    readers_max: int = bounded(16, minimum=1, maximum=1000)
    """So many connections to the metadata are kept for reading."""
    reserve_bytes: int = bounded(256 * MIB, minimum=0, maximum=TIB)
    """Writes leave so much of the disk free."""
    require_if_match_buckets: str = ""
    """Buckets where overwriting needs `If-Match`, separated by commas; `*`: all."""
    spec_version_listing: bool = False
    """Whether ListObjectVersions of an unversioned bucket is empty, and not a list of `null`s."""
    default_versioning: str = "enabled"
    """Whether new buckets keep old versions: `enabled`, or `unversioned`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.default_versioning not in ("enabled", "unversioned"):
            raise BadConfig(
                f"default_versioning is {self.default_versioning!r}: enabled or unversioned"
            )

    @property
    def versioning(self) -> Versioning:
        """Of a new bucket, if nothing else is asked for."""
        enabled = self.default_versioning == "enabled"
        return Versioning.ENABLED if enabled else Versioning.DISABLED
