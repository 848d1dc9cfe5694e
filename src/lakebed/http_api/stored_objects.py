"""All versions of a bucket, and the parts of its uploads, in pages for who reads the whole.

How the whole is best cut is told by a sample of the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from lakebed.api import stored_objects as wire
from lakebed.api.operation import Operation
from lakebed.http_api.call import Call
from lakebed.http_api.handler import Handler
from lakebed.http_api.service import Service
from lakebed.seglake.lake import Lake
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import PendingManifest
from lakebed.seglake.stored_pages import KeyRange, ListedPart

# Imported when an object is asked for: who has only logs and topics needs no SQLite.


async def list_stored_versions(service: Service, call: Call) -> wire.StoredVersions:
    lake = await service.lake()
    return await service.run(partial(_versions, lake, call.names["bucket"], call.query))


async def list_stored_parts(service: Service, call: Call) -> wire.StoredParts:
    lake = await service.lake()
    return await service.run(partial(_parts, lake, call.names["bucket"], call.query))


async def sample_keys(service: Service, call: Call) -> wire.KeySample:
    lake = await service.lake()
    return await service.run(partial(_sample, lake, only_current=call.query.only_current))


def _sample(lake: Lake, *, only_current: bool) -> wire.KeySample:
    from lakebed.seglake.key_sample import sample_keys

    with lake.metadata.reading() as reader:
        sample = sample_keys(reader, only_current=only_current)
    keys = [wire.SampledKey(bucket, key.decode()) for bucket, key in sample.places]
    return wire.KeySample(keys, sample.row_count)


def _versions(lake: Lake, bucket: str, query: wire.StoredVersionsQuery) -> wire.StoredVersions:
    from lakebed.seglake.stored_pages import VersionPlace, current_behind, versions_behind
    from lakebed.seglake.versions import require_bucket

    last = None
    if query.hlc is not None and query.after.startswith(query.prefix):
        last = VersionPlace(query.after, query.hlc, query.site_id)
    count_max = query.max_versions
    with lake.metadata.reading() as reader:
        require_bucket(reader, bucket)
        keys = _keys(bucket, query.prefix, query.after)
        behind = current_behind if query.only_current else versions_behind
        page = behind(reader, keys, last, count_max=count_max + 1)
        found = page[:count_max]
        if not query.manifests:
            told = [_version(one, None) for one in found]
        else:
            manifests = (reader.manifest_file(one.row.version_id) for one in found)
            told = _with_manifests(zip(found, manifests, strict=True))
    return wire.StoredVersions(told, has_more=len(page) > len(told))


def _with_manifests(
    found: Iterable[tuple[ListedVersion, PendingManifest | None]],
) -> list[wire.StoredVersion]:
    """As many as fit on a page, and at least one."""
    told: list[wire.StoredVersion] = []
    size = 0
    for listed, pending in found:
        told.append(_version(listed, pending))
        size += len(told[-1].manifest or b"")
        if size >= wire.MANIFEST_BYTES:
            break
    return told


def _version(listed: ListedVersion, pending: PendingManifest | None) -> wire.StoredVersion:
    row = listed.row
    return wire.StoredVersion(
        key=row.key,
        version_id=row.version_id,
        is_null=row.is_null,
        is_latest=listed.is_latest,
        state=row.state.value,
        etag=row.etag,
        size=row.size,
        content_type=row.content_type,
        modified_ms=row.modified_ms,
        hlc=row.hlc,
        site_id=row.site_id,
        file_state=None if pending is None else pending.file_state,
        manifest=None if pending is None else pending.data,
    )


def _parts(lake: Lake, bucket: str, query: wire.StoredPartsQuery) -> wire.StoredParts:
    from lakebed.seglake.stored_pages import PartPlace, parts_behind
    from lakebed.seglake.versions import require_bucket

    last = None
    if query.upload_id is not None and query.after.startswith(query.prefix):
        last = PartPlace(query.after, query.upload_id, query.part)
    with lake.metadata.reading() as reader:
        require_bucket(reader, bucket)
        keys = _keys(bucket, query.prefix, query.after)
        page = parts_behind(reader, keys, last, count_max=query.max_parts)
    marker = None if page.last is None else wire.PartMarker(*page.last)
    return wire.StoredParts(list(map(_part, page.parts)), marker)


def _part(listed: ListedPart) -> wire.StoredPart:
    row = listed.row
    return wire.StoredPart(
        key=listed.key,
        upload_id=row.upload_id,
        number=row.number,
        etag=row.etag,
        size=row.size,
        modified_ms=row.modified_ms,
        checksums=row.checksums,
        manifest=row.chunks,
    )


def _keys(bucket: str, prefix: str, after: str) -> KeyRange:
    from lakebed.seglake.listing import keys_behind
    from lakebed.seglake.stored_pages import KeyRange

    return KeyRange(bucket, *keys_behind(prefix, after))


HANDLERS: Final[Mapping[Operation[Any], Handler]] = {
    wire.LIST_STORED_VERSIONS: list_stored_versions,
    wire.LIST_STORED_PARTS: list_stored_parts,
    wire.SAMPLE_KEYS: sample_keys,
}
