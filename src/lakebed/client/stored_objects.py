"""Lists the versions in a bucket of a remote store, and the parts of its unfinished uploads.

The remote form of `lakebed.seglake.stored_pages.StoredObjects`.
"""

from __future__ import annotations

from lakebed.api import stored_objects as wire
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.seglake.stored_rows import (
    PARTS_MAX,
    VERSIONS_MAX,
    KeySample,
    PartPage,
    PartPlace,
    StoredVersions,
)


class RemoteStoredObjects:
    """Lists the versions and the parts of unfinished uploads in the buckets of a remote store.
    Thread-safe."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def versions(
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
        """Returns a page of versions whose keys begin with `prefix` and sort after `after`.

        `hlc` and `site_id`, if given, identify a version of the key `after`: the page then starts
        with the versions of that key that are older than this version. With `manifests`, each
        version has its manifest. With `only_current`, returns only the newest version of each key,
        and no delete markers.
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
        page = self._caller.call(operation, {"bucket": bucket}, query=query)
        if page.has_more and not page.versions:
            raise BadAnswer(
                f"{operation.name}: the server returned an empty page, although more versions "
                "follow"
            )
        return page

    def parts(
        self,
        bucket: str,
        *,
        prefix: str = "",
        after: str = "",
        upload_id: str | None = None,
        part: int = 0,
        max_parts: int = PARTS_MAX,
    ) -> PartPage:
        """Returns a page of parts of unfinished uploads to keys that begin with `prefix` and sort
        after `after`.

        `upload_id`, if given, identifies an upload to the key `after`: the page then starts with
        the parts of this upload after number `part`, and the parts of later uploads to that key.
        """
        query = wire.StoredPartsQuery(
            prefix=prefix, after=after, upload_id=upload_id, part=part, max_parts=max_parts
        )
        operation = wire.LIST_STORED_PARTS
        page = self._caller.call(operation, {"bucket": bucket}, query=query)
        if upload_id is not None and page.next == PartPlace(after, upload_id, part):
            raise BadAnswer(f"{operation.name}: the server returned the same page again")
        return page

    def sample(self, *, only_current: bool = False) -> KeySample:
        """Returns a sample of the keys in all buckets. A key is repeated for each of its versions
        in the sample; with `only_current`, only current objects are sampled."""
        return self._caller.call(wire.SAMPLE_KEYS, query=wire.SampleQuery(only_current))
