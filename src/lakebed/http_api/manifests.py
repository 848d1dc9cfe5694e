"""Serves the files of manifest logs (records of all changes of a log's segments) to remote readers.

Files are sent exactly as stored, including the one that is being written. The reader verifies them
by their checksums, as a reader of the folder does. Nothing is opened for writing or repaired.

A file name from a request never becomes part of a path: it is parsed as a manifest file name, and
the path is built from the parsed number.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final

from lakebed.aof.manifest.files import list_files
from lakebed.aof.manifest.paths import parse_file_name
from lakebed.aof.tiers.ranges import FileSource
from lakebed.api import manifests
from lakebed.api.operation import Operation
from lakebed.api.problems import FileGone
from lakebed.base.errors import NotFound
from lakebed.base.units import shown
from lakebed.http.response import Response
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.http_api.stored_range import StoredRange, answer_range
from lakebed.store.store import Store


async def log_manifest(service: Service, call: Call) -> manifests.ManifestFiles:
    return await service.run(partial(_list, service.store, call.names["log"], call.query))


async def log_manifest_bytes(service: Service, call: Call) -> Response:
    query: manifests.FileRangeQuery = call.query
    opening = partial(_open, service.store, call.names["log"], call.names["file"])
    return await answer_range(service, call, opening, query.offset, query.length)


def _list(store: Store, log: str, query: manifests.FilesQuery) -> manifests.ManifestFiles:
    manifest = store.manifest_log(log)
    if manifest is None:
        return manifests.ManifestFiles(log, None, "", [], None)
    reader = manifest.reader
    files = list_files(store.disk, reader.paths, after=query.after)
    page = list(islice(files, query.max_files))
    next_after = page[-1].name if next(files, None) is not None else None
    return manifests.ManifestFiles(
        manifest.log,
        manifest.stream,
        reader.paths.folder,
        page,
        next_after,
        is_enabled=manifest.is_enabled,
        damage=manifest.damage,
    )


def _open(store: Store, log: str, name: str) -> StoredRange:
    manifest, parsed = store.manifest_log(log), parse_file_name(name)
    gone = FileGone(f"{log}: the manifest log has no file {shown(name)}; list its files again")
    if manifest is None or parsed is None:
        raise gone
    try:
        source = FileSource(store.disk.open(manifest.reader.paths.file(parsed)))
    except NotFound:
        raise gone from None
    return StoredRange(source, source.size, [])


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    manifests.LOG_MANIFEST: log_manifest,
    manifests.LOG_MANIFEST_BYTES: log_manifest_bytes,
}
