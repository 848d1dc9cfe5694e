"""The calls for manifest logs: their files, for readers without access to the root.

A manifest log is named by its log's name or its stream id. The log need not be open.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from lakebed.aof.manifest.files import ManifestFile
from lakebed.api.operation import Operation, Raw
from lakebed.api.topics import Count

FILES_MAX = 1000  # per page
_TAG = "manifests"


class FilesQuery(Struct, frozen=True):
    """A page of file names in order, which begins after the name `after`."""

    after: str = ""
    max_files: Annotated[int, Meta(ge=1, le=FILES_MAX)] = FILES_MAX


class ManifestFiles(Struct, frozen=True):
    """A page of a manifest log's files. `stream` is None if the log has no manifest log."""

    log: str
    stream: str | None  # 16 hex digits
    folder: str  # the folder of the files on the server
    files: list[ManifestFile]
    next_after: str | None  # `after` for the next page; None if this is the last
    is_enabled: bool | None = None  # whether changes are being recorded; None if unknown
    damage: str | None = None  # what is wrong with the log's `log.json`; None if nothing is


class FileRangeQuery(Struct, frozen=True):
    offset: Count = 0
    length: Annotated[int, Meta(ge=1)] | None = None


_MANIFEST = "/v1/logs/{log}/manifest"

LOG_MANIFEST: Final = Operation(
    "log_manifest", "GET", _MANIFEST, "List a page of the files of a log's manifest log",
    ManifestFiles, query=FilesQuery, tag=_TAG, is_repeatable=True,
)  # fmt: skip
LOG_MANIFEST_BYTES: Final = Operation(
    "log_manifest_bytes", "GET", _MANIFEST + "/{file}/bytes",
    "Read a range of a file of a manifest log, as stored",
    bytes, query=FileRangeQuery, also_gives=(Raw.BYTES,), tag=_TAG, is_repeatable=True,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[object], ...]] = (LOG_MANIFEST, LOG_MANIFEST_BYTES)
