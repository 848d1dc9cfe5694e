"""All versions of a bucket elsewhere, and the parts of its uploads, a page at a time.

Rows are those of the metadata there, and manifests the bytes that it has: they are decoded here.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.api import stored_objects as wire
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.seglake.key_sample import KeyPlace, KeySample
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.reader import key_bytes
from lakebed.seglake.meta.rows import PartRow, PendingManifest, VersionRow
from lakebed.seglake.model import State
from lakebed.seglake.stored_pages import ListedPart, PartPage, PartPlace, VersionPlace


class VersionPage(NamedTuple):
    """Each with its manifest, if that was asked for and there is one."""

    versions: list[tuple[ListedVersion, PendingManifest | None]]
    last: VersionPlace | None  # where the next page goes on; None if there is none


def remote_sample(caller: Caller, *, only_current: bool) -> KeySample:
    """How the keys of a store elsewhere are spread."""
    told = caller.call(wire.SAMPLE_KEYS, query=wire.SampleQuery(only_current))
    places = [KeyPlace(one.bucket, key_bytes(one.key)) for one in told.keys]
    return KeySample(sorted(places), told.row_count)


class RemoteStoredObjects:
    """Of one bucket. Thread-safe."""

    def __init__(self, caller: Caller, bucket: str) -> None:
        self._caller = caller
        self._bucket = bucket

    def versions(
        self,
        *,
        prefix: str = "",
        after: str = "",
        last: VersionPlace | None = None,
        max_versions: int = wire.VERSIONS_MAX,
        manifests: bool = False,
        only_current: bool = False,
    ) -> VersionPage:
        """Of keys with the prefix that are behind `after`, or else behind `last`."""
        query = wire.StoredVersionsQuery(
            prefix=prefix,
            after=after if last is None else last.key,
            hlc=None if last is None else last.hlc,
            site_id="" if last is None else last.site_id,
            max_versions=max_versions,
            manifests=manifests,
            only_current=only_current,
        )
        operation = wire.LIST_STORED_VERSIONS
        page = self._caller.call(operation, {"bucket": self._bucket}, query=query)
        found = [(self._listed(one), _pending(one)) for one in page.versions]
        if not page.has_more:
            return VersionPage(found, None)
        if not found:
            raise BadAnswer(f"{operation.name}: a page that leads nowhere")
        row = found[-1][0].row
        return VersionPage(found, VersionPlace(row.key, row.hlc, row.site_id))

    def parts(
        self,
        *,
        prefix: str = "",
        after: str = "",
        last: PartPlace | None = None,
        max_parts: int = wire.PARTS_MAX,
    ) -> PartPage:
        """Of uploads under way to keys with the prefix that are behind `after`, or behind `last`.

        A page may have none, and yet there are more.
        """
        query = wire.StoredPartsQuery(
            prefix=prefix,
            after=after if last is None else last.key,
            upload_id=None if last is None else last.upload_id,
            part=0 if last is None else last.number,
            max_parts=max_parts,
        )
        operation = wire.LIST_STORED_PARTS
        page = self._caller.call(operation, {"bucket": self._bucket}, query=query)
        found = list(map(_part, page.parts))
        if page.next is None:
            return PartPage(found, None)
        behind = PartPlace(page.next.after, page.next.upload_id, page.next.part)
        if behind == last:
            raise BadAnswer(f"{operation.name}: a page that leads nowhere")
        return PartPage(found, behind)

    def _listed(self, one: wire.StoredVersion) -> ListedVersion:
        row = VersionRow(
            version_id=one.version_id,
            bucket=self._bucket,
            key=one.key,
            state=State(one.state),
            is_null=one.is_null,
            etag=one.etag,
            size=one.size,
            content_type=one.content_type,
            modified_ms=one.modified_ms,
            hlc=one.hlc,
            site_id=one.site_id,
        )
        return ListedVersion(row, one.is_latest)


def _pending(one: wire.StoredVersion) -> PendingManifest | None:
    if one.file_state is None:
        return None
    return PendingManifest(one.version_id, one.file_state, one.manifest)


def _part(one: wire.StoredPart) -> ListedPart:
    row = PartRow(
        upload_id=one.upload_id,
        number=one.number,
        etag=one.etag,
        size=one.size,
        modified_ms=one.modified_ms,
        chunks=one.manifest,
        checksums=one.checksums,
    )
    return ListedPart(one.key, row)
