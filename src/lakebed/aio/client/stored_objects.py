# Made by `python -m tools.asynced` of `src/lakebed/client/stored_objects.py`: edit that.
"""All versions of a bucket elsewhere, and the parts of its uploads, a page at a time.

As `lakebed.seglake.stored_pages.StoredObjects`.
"""

from __future__ import annotations

from lakebed.aio.client.caller import Caller
from lakebed.api import stored_objects as wire
from lakebed.client.errors import BadAnswer
from lakebed.seglake.stored_rows import (
    PARTS_MAX,
    VERSIONS_MAX,
    KeySample,
    PartPage,
    PartPlace,
    StoredVersions,
)


class AsyncStoredObjects:
    """For one event loop."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        after: str = "",
        hlc: str | None = None,
        site_id: str = "",
        max_versions: int = VERSIONS_MAX,
        manifests: bool = False,
        only_current: bool = False,
    ) -> StoredVersions:
        """Of keys that begin with `prefix` and are after `after`; with `hlc` and `site_id` also the
        versions of that key that are older than the one they name.

        `only_current`: of each key the newest, and no delete markers.
        """
        query = wire.StoredVersionsQuery(
            prefix=prefix,
            after=after,
            hlc=hlc,
            site_id=site_id,
            max_versions=max_versions,
            manifests=manifests,
            only_current=only_current,
        )
        operation = wire.LIST_STORED_VERSIONS
        page = await self._caller.call(operation, {"bucket": bucket}, query=query)
        if page.has_more and not page.versions:
            raise BadAnswer(f"{operation.name}: a page that leads nowhere")
        return page

    async def parts(
        self,
        bucket: str,
        *,
        prefix: str = "",
        after: str = "",
        upload_id: str | None = None,
        part: int = 0,
        max_parts: int = PARTS_MAX,
    ) -> PartPage:
        """Of uploads under way to keys that begin with `prefix` and are after `after`; with
        `upload_id` also the uploads to that key after it, and its own parts after `part`."""
        query = wire.StoredPartsQuery(
            prefix=prefix, after=after, upload_id=upload_id, part=part, max_parts=max_parts
        )
        operation = wire.LIST_STORED_PARTS
        page = await self._caller.call(operation, {"bucket": bucket}, query=query)
        if upload_id is not None and page.next == PartPlace(after, upload_id, part):
            raise BadAnswer(f"{operation.name}: a page that leads nowhere")
        return page

    async def sample(self, *, only_current: bool = False) -> KeySample:
        """How the keys of all buckets are spread; of objects that are there now, or of versions."""
        return await self._caller.call(wire.SAMPLE_KEYS, query=wire.SampleQuery(only_current))
