"""Manifest logs over the wire: their files, for readers that cannot see them.

A manifest log is asked for by its log's name or by its stream id, and is there before anybody has
opened the log.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.aof.manifest.files import ManifestFile
from lakebed.api.operation import Operation, Raw
from lakebed.api.topics import Count

FILES_MAX = 1000  # of a page
_TAG = "manifests"


class FilesQuery(Struct, frozen=True):
    """Files whose names are behind `after`, by name."""

    after: str = ""
    max_files: Annotated[int, Meta(ge=1, le=FILES_MAX)] = FILES_MAX


class ManifestFiles(Struct, frozen=True):
    """A page. Without a stream nothing was ever recorded, and there are no files."""

    log: str
    stream: str | None  # 16 hex digits
    folder: str  # where the files are, there
    files: list[ManifestFile]
    next_after: str | None  # None if these were the last
    is_enabled: bool | None = None  # whether records are kept; None if that is not known
    damage: str | None = None  # of the log's `log.json`


class FileRangeQuery(Struct, frozen=True):
    offset: Count = 0
    length: Annotated[int, Meta(ge=1)] | None = None


_MANIFEST = "/v1/logs/{log}/manifest"

LOG_MANIFEST: Final = Operation(
    "log_manifest", "GET", _MANIFEST, "A page of the files of a log's manifest log",
    ManifestFiles, query=FilesQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_MANIFEST_BYTES: Final = Operation(
    "log_manifest_bytes", "GET", _MANIFEST + "/{file}/bytes", "A range of one of them as it stands",
    bytes, query=FileRangeQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (LOG_MANIFEST, LOG_MANIFEST_BYTES)
