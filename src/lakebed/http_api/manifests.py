"""The files of manifest logs, for readers that cannot see them.

They are given out as they stand in the folder, also the chunk that is being written: whoever reads
them judges them, by their checksums, as who sees the folder does. Nothing is opened for writing,
or repaired, for being read.

A name that comes in is never part of a path: it must be one that such a file can have, and the path
is made of its number.
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
    found = store.manifest_log(log)
    if found is None:
        return manifests.ManifestFiles(log, None, "", [], None)
    reader = found.reader
    files = list_files(store.disk, reader.paths, after=query.after)
    page = list(islice(files, query.max_files))
    next_after = page[-1].name if next(files, None) is not None else None
    return manifests.ManifestFiles(
        found.log,
        found.stream,
        reader.paths.folder,
        page,
        next_after,
        is_enabled=found.is_enabled,
        damage=found.damage,
    )


def _open(store: Store, log: str, name: str) -> StoredRange:
    found, parsed = store.manifest_log(log), parse_file_name(name)
    gone = FileGone(f"{log}: its manifest log has no file {shown(name)}; list them again")
    if found is None or parsed is None:
        raise gone
    try:
        source = FileSource(store.disk.open(found.reader.paths.file(parsed)))
    except NotFound:
        raise gone from None
    return StoredRange(source, source.size, [])


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    manifests.LOG_MANIFEST: log_manifest,
    manifests.LOG_MANIFEST_BYTES: log_manifest_bytes,
}
