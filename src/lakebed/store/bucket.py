"""A bucket of the object store, for a program that embeds the store.

photos = store.bucket("photos")
photos.put("2025/city.jpg", data, content_type="image/jpeg")
photos.read("2025/city.jpg")
for item in photos.list(prefix="2025/"):
    print(item.key, item.size)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakebed.base.errors import LakebedError
from lakebed.seglake.body import Source
from lakebed.seglake.change import Change
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import (
    Algorithm,
    BucketInfo,
    Condition,
    Content,
    Deleted,
    ObjectInfo,
    ObjectToDelete,
    Versioning,
)
from lakebed.seglake.names import check_content
from lakebed.seglake.objects import DELETED_AT_ONCE_MAX
from lakebed.store.read_only_bucket import ReadOnlyBucket
from lakebed.store.upload import Upload


class Bucket(ReadOnlyBucket):
    """A bucket that can be read and written. Thread-safe.

    A method that changes the bucket returns when the change is durable. `deletion` and `copying`
    change nothing: they return a change that the caller can commit.
    """

    def __init__(self, lake: Lake, name: str) -> None:
        super().__init__(lake, name)
        self._lake = lake

    def set_versioning(self, versioning: Versioning) -> BucketInfo:
        return self._lake.buckets.set_versioning(self.name, versioning)

    def put(
        self,
        key: str,
        source: Source,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        algorithm: Algorithm | None = None,
    ) -> ObjectInfo:
        """Store an object from bytes, a file or an iterable of bytes, using bounded memory.

        With `if_none_match="*"` the object is stored only if the key has no object yet; with
        `if_match=etag` only if it replaces the object with that ETag. If the condition is not met,
        raises `PreconditionFailed`; with `if_match`, raises `NoSuchKey` if the key has no object.
        If `content` is given, `content_type` and `metadata` are ignored.
        """
        if content is None:
            content = Content(content_type=content_type, metadata=dict(metadata or {}))
        check_content(content)
        return self._lake.objects.put(
            self.name,
            key,
            source,
            content=content,
            condition=Condition(if_match=if_match, if_none_match=if_none_match),
            algorithm=algorithm,
        )

    def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Hide the object with a delete marker, or remove the version named by `version_id`.

        In a bucket whose versioning was never enabled, the object itself is removed. `if_match` is
        a condition on the current object, as in `put`. Without `if_match`, it is no error if there
        is no such object or version.
        """
        return self.deletion(key, version_id=version_id, if_match=if_match).run()

    def deletion(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Change[Deleted]:
        """Return the change that `delete` would make, without committing it."""
        target = ObjectToDelete(key, version_id, Condition(if_match=if_match))
        return self._lake.objects.deletion(self.name, target)

    def delete_many(self, keys: Iterable[str | ObjectToDelete]) -> list[Deleted | LakebedError]:
        """Delete any number of objects, each independently of the others.

        The results are in the order of `keys`. The result for an object that could not be deleted
        is its error. Raises `NoSuchBucket` if the bucket does not exist.
        """
        objects = [key if isinstance(key, ObjectToDelete) else ObjectToDelete(key) for key in keys]
        results: list[Deleted | LakebedError] = []
        for start in range(0, len(objects), DELETED_AT_ONCE_MAX):
            page = objects[start : start + DELETED_AT_ONCE_MAX]
            results += self._lake.objects.delete_many(self.name, page)
        return results

    def copy(
        self,
        key: str,
        target: str,
        *,
        bucket: str | None = None,
        version_id: str | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> ObjectInfo:
        """Copy the object to the key `target` of `bucket`, by default of the same bucket.

        The bytes are not copied: both objects share them. By default the current version is copied;
        `version_id` names another. `if_match` and `if_none_match` are conditions on the target, as
        in `put`. `content` replaces the source's headers and metadata, which are copied by default.
        """
        return self.copying(
            key,
            target,
            bucket=bucket,
            version_id=version_id,
            content=content,
            if_match=if_match,
            if_none_match=if_none_match,
        ).run()

    def copying(
        self,
        key: str,
        target: str,
        *,
        bucket: str | None = None,
        version_id: str | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Change[ObjectInfo]:
        """Return the change that `copy` would make, without committing it."""
        if content is not None:
            check_content(content)
        change = self._lake.objects.copying(
            self.name,
            key,
            bucket or self.name,
            target,
            source_version_id=version_id,
            content=content,
            condition=Condition(if_match=if_match, if_none_match=if_none_match),
        ).step()
        assert change is not None, "only a new checksum is computed in steps"
        return change

    def upload(
        self,
        key: str,
        *,
        content: Content | None = None,
        algorithm: Algorithm | None = None,
    ) -> Upload:
        """Begin a multipart upload of an object; `complete` of the result stores the object."""
        content = content or Content()
        check_content(content)
        info = self._lake.uploads.create(self.name, key, content=content, algorithm=algorithm)
        return Upload(self._lake.uploads, info)
