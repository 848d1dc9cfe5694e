"""What an object store is, in plain Python: S3's rules, without disks, threads or efficiency.

Nothing here is stored in any clever way: a bucket is a list of versions per key, the newest
first, and every question looks at all of it. Ids are whatever the caller says the store made up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakebed.base.errors import InputError
from lakebed.seglake.errors import (
    BadPart,
    BadPartOrder,
    BadState,
    BucketExists,
    BucketNotEmpty,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
    NoSuchVersion,
    PartTooSmall,
    PreconditionFailed,
)
from lakebed.seglake.model import Condition, Content, Versioning

NULL = "null"


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


class ModelVersion(NamedTuple):
    """A version, or a delete marker: that has no data."""

    version_id: str  # as it is told: "null", or what the store made up
    data: bytes | None
    etag: str = ""
    content: Content = Content()
    part_sizes: tuple[int, ...] = ()

    @property
    def is_marker(self) -> bool:
        return self.data is None


@dataclass
class ModelUpload:
    key: str
    content: Content
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass
class ModelBucket:
    versioning: Versioning
    versions: dict[str, list[ModelVersion]] = field(default_factory=dict)  # the newest first
    uploads: dict[str, ModelUpload] = field(default_factory=dict)


class Entry(NamedTuple):
    """One line of a listing: of a key, with the id it has where there can be several; or a
    common prefix, without."""

    name: str
    item_id: str | None
    is_latest: bool = True


class ObjectModel:
    """Raises what the store raises."""

    def __init__(self, *, part_bytes_min: int) -> None:
        self.buckets: dict[str, ModelBucket] = {}
        self._part_bytes_min = part_bytes_min

    # Buckets.

    def create_bucket(self, name: str, versioning: Versioning | None) -> Versioning:
        if versioning is Versioning.SUSPENDED:
            raise BadState("not born so")
        found = self.buckets.get(name)
        if found is None:
            found = self.buckets[name] = ModelBucket(versioning or Versioning.ENABLED)
        if versioning not in (None, found.versioning):
            raise BucketExists(name)
        return found.versioning

    def delete_bucket(self, name: str) -> None:
        bucket = self.bucket(name)
        has_data = any(not one.is_marker for each in bucket.versions.values() for one in each)
        if has_data:
            raise BucketNotEmpty(name)
        del self.buckets[name]

    def set_versioning(self, name: str, versioning: Versioning) -> None:
        if versioning is Versioning.DISABLED:
            raise BadState("never again")
        self.bucket(name).versioning = versioning

    def bucket(self, name: str) -> ModelBucket:
        if name not in self.buckets:
            raise NoSuchBucket(name)
        return self.buckets[name]

    # Writing.

    def put(self, bucket: str, key: str, version: ModelVersion, condition: Condition) -> str:
        """Its id as it is told."""
        found = self.bucket(bucket)
        self.check(bucket, key, condition)
        return self._add(found, key, version)

    def copy(
        self,
        source: tuple[str, str, str | None],
        bucket: str,
        key: str,
        *,
        new_id: str,
        content: Content | None,
        condition: Condition,
    ) -> str:
        found = self.find(*source)
        version = found._replace(version_id=new_id)
        if content is not None:
            version = version._replace(content=content)
        return self.put(bucket, key, version, condition)

    def delete(self, bucket: str, key: str, *, new_id: str, condition: Condition) -> str | None:
        """The id of the marker as it is told; None where there are no versions."""
        found = self.bucket(bucket)
        self.check(bucket, key, condition)
        if found.versioning is Versioning.DISABLED:
            found.versions.pop(key, None)
            return None
        return self._add(found, key, ModelVersion(new_id, None))

    def delete_version(self, bucket: str, key: str, version_id: str) -> bool:
        """Whether it was a delete marker."""
        found = self.bucket(bucket)
        removed = [one for one in found.versions.get(key, []) if one.version_id == version_id]
        if removed:
            found.versions[key].remove(removed[0])
        if not found.versions.get(key):
            found.versions.pop(key, None)
        return bool(removed) and removed[0].is_marker

    def check(self, bucket: str, key: str, condition: Condition) -> None:
        newest = self.bucket(bucket).versions.get(key, [ModelVersion("", None)])[0]
        if condition.if_none_match and not newest.is_marker:
            raise PreconditionFailed(key)
        if condition.if_match and newest.is_marker:
            raise NoSuchKey(key)
        if condition.if_match not in (None, "*", newest.etag):
            raise PreconditionFailed(key)

    @staticmethod
    def _add(bucket: ModelBucket, key: str, version: ModelVersion) -> str:
        versions = bucket.versions.setdefault(key, [])
        if bucket.versioning is not Versioning.ENABLED:
            version = version._replace(version_id=NULL)
            versions[:] = [one for one in versions if one.version_id != NULL]
        versions.insert(0, version)
        return version.version_id

    # Reading.

    def find(self, bucket: str, key: str, version_id: str | None) -> ModelVersion:
        versions = self.bucket(bucket).versions.get(key, [])
        if version_id is None:
            if not versions or versions[0].is_marker:
                raise NoSuchKey(key, marker_id=versions[0].version_id if versions else None)
            return versions[0]
        for version in versions:
            if version.version_id == version_id:
                if version.is_marker:
                    raise MethodNotAllowed(key, marker_id=version_id)
                return version
        raise NoSuchVersion(key)

    # Uploads.

    def create_upload(self, bucket: str, key: str, *, new_id: str, content: Content) -> None:
        self.bucket(bucket).uploads[new_id] = ModelUpload(key, content)

    def upload(self, bucket: str, key: str, upload_id: str) -> ModelUpload:
        found = self.bucket(bucket).uploads.get(upload_id)
        if found is None or found.key != key:
            raise NoSuchUpload(upload_id)
        return found

    def put_part(self, bucket: str, key: str, upload_id: str, number: int, data: bytes) -> str:
        self.upload(bucket, key, upload_id).parts[number] = data
        return md5(data)

    def abort(self, bucket: str, key: str, upload_id: str) -> None:
        self.upload(bucket, key, upload_id)
        del self.buckets[bucket].uploads[upload_id]

    def complete(
        self,
        bucket: str,
        key: str,
        upload_id: str,
        parts: Sequence[tuple[int, str]],
        *,
        new_id: str,
        condition: Condition,
    ) -> str:
        numbers = [number for number, _ in parts]
        if not parts:
            raise InputError("no parts")
        if numbers != sorted(set(numbers)):
            raise BadPartOrder(key)
        upload = self.upload(bucket, key, upload_id)
        for number, etag in parts:
            if number not in upload.parts or md5(upload.parts[number]) != etag:
                raise BadPart(key)
        bodies = [upload.parts[number] for number in numbers]
        if any(len(one) < self._part_bytes_min for one in bodies[:-1]):
            raise PartTooSmall(key)
        version = ModelVersion(
            new_id,
            b"".join(bodies),
            f"{md5(b''.join(bytes.fromhex(md5(one)) for one in bodies))}-{len(bodies)}",
            upload.content,
            tuple(len(one) for one in bodies),
        )
        told = self.put(bucket, key, version, condition)
        del self.buckets[bucket].uploads[upload_id]
        return told

    # Listing: all entries there are; pages are cut from them by whoever asks.

    def entries(self, bucket: str, *, prefix: str, delimiter: str, after: str) -> list[Entry]:
        """Of the objects."""
        found = self.bucket(bucket).versions
        items = {key: [Entry(key, None)] for key in found if not found[key][0].is_marker}
        return _entries(items, prefix=prefix, delimiter=delimiter, after=after, after_id=None)

    def version_entries(
        self, bucket: str, *, prefix: str, delimiter: str, after: str, after_id: str | None
    ) -> list[Entry]:
        """Of all versions and markers."""
        found = self.bucket(bucket)
        items = {
            key: [
                Entry(key, one.version_id, is_latest=index == 0)
                for index, one in enumerate(versions)
            ]
            for key, versions in found.versions.items()
        }
        return _entries(items, prefix=prefix, delimiter=delimiter, after=after, after_id=after_id)

    def upload_entries(
        self, bucket: str, *, prefix: str, delimiter: str, after: str, after_id: str | None
    ) -> list[Entry]:
        """Of the uploads under way."""
        items: dict[str, list[Entry]] = {}
        for upload_id, upload in sorted(self.bucket(bucket).uploads.items()):
            items.setdefault(upload.key, []).append(Entry(upload.key, upload_id))
        return _entries(items, prefix=prefix, delimiter=delimiter, after=after, after_id=after_id)


def _entries(
    items: Mapping[str, list[Entry]],
    *,
    prefix: str,
    delimiter: str,
    after: str,
    after_id: str | None,
) -> list[Entry]:
    """In bytewise order, those behind the marker; of the marked key itself those behind the id."""
    found: list[Entry] = []
    for key in sorted(items, key=str.encode):
        if not key.startswith(prefix):
            continue
        head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        entry = prefix + head + cut
        if cut:
            if entry.encode() > after.encode() and Entry(entry, None) not in found:
                found.append(Entry(entry, None))
        elif key.encode() > after.encode():
            found += items[key]
        elif key == after and after_id:
            ids = [one.item_id for one in items[key]]
            start = ids.index(after_id) + 1 if after_id in ids else 0
            found += items[key][start:]
    return found
