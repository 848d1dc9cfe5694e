"""Documents that clients get, but for errors and the pages of listings (`xml_listings`).

Each is a function from values to bytes. Times are told in UTC, with milliseconds.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote

from lakebed.s3.errors import S3Error
from lakebed.s3.xml_text import DECLARATION, NAMESPACE, element, escaped
from lakebed.seglake.model import BucketInfo, Checksum, Deleted, ObjectInfo, Versioning
from lakebed.seglake.multipart import PartPage
from lakebed.seglake.upload_rows import PartInfo, UploadInfo

OWNER_ID: Final = "6c616b65626564000000000000000000000000000000000000000000000000ff"
OWNER_NAME: Final = "lakebed"
STORAGE_CLASS: Final = "STANDARD"

OWNER: Final = f"<Owner><ID>{OWNER_ID}</ID><DisplayName>{OWNER_NAME}</DisplayName></Owner>"
INITIATOR: Final = OWNER.replace("Owner>", "Initiator>")

_MS_PER_S: Final = 1000


def document(name: str, parts: Iterable[str]) -> bytes:
    return "".join((DECLARATION, f'<{name} xmlns="{NAMESPACE}">', *parts, f"</{name}>")).encode()


def told_time(moment_ms: int) -> str:
    seconds, milliseconds = divmod(moment_ms, _MS_PER_S)
    return f"{_told_second(seconds)}.{milliseconds:03d}Z"


@functools.lru_cache(maxsize=4096)
def _told_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def told_key(key: str, *, is_url_encoded: bool) -> str:
    """As `encoding-type=url` wants it, or as XML does.

    A space is `%20`, which all clients decode; AWS writes `+`, which some do not.
    """
    return quote(key, safe="/") if is_url_encoded else escaped(key)


def told_bool(value: bool) -> str:
    return "true" if value else "false"


class BucketPage(NamedTuple):
    buckets: Sequence[BucketInfo]
    prefix: str
    region: str
    next_token: str | None


def list_buckets(page: BucketPage) -> bytes:
    region = element("BucketRegion", page.region)
    parts = [OWNER, "<Buckets>"]
    parts += [
        f"<Bucket>{element('Name', bucket.name)}"
        f"<CreationDate>{told_time(bucket.created_ms)}</CreationDate>{region}</Bucket>"
        for bucket in page.buckets
    ]
    parts.append("</Buckets>")
    if page.prefix:
        parts.append(element("Prefix", page.prefix))
    if page.next_token is not None:
        parts.append(element("ContinuationToken", page.next_token))
    return document("ListAllMyBucketsResult", parts)


def location(region: str) -> bytes:
    """The first of all regions has no name here."""
    return document("LocationConstraint", [] if region == "us-east-1" else [escaped(region)])


def versioning(state: Versioning) -> bytes:
    """One that was never versioned has an empty configuration."""
    told = {Versioning.ENABLED: "Enabled", Versioning.SUSPENDED: "Suspended"}.get(state)
    return document("VersioningConfiguration", [] if told is None else [element("Status", told)])


def no_tags() -> bytes:
    return document("Tagging", ["<TagSet></TagSet>"])


class NotDeleted(NamedTuple):
    """One of many that was to be deleted."""

    key: str
    version_id: str | None
    error: S3Error


def deletion(results: Iterable[tuple[Deleted, str | None] | NotDeleted]) -> bytes:
    """Each with the version id that was asked for, if one was."""
    return document("DeleteResult", map(_deleted, results))


def _deleted(result: tuple[Deleted, str | None] | NotDeleted) -> str:
    if isinstance(result, NotDeleted):
        key, version_id, error = result
        version = "" if version_id is None else element("VersionId", version_id)
        code, message = element("Code", error.code), element("Message", str(error))
        return f"<Error>{element('Key', key)}{version}{code}{message}</Error>"
    done, asked_id = result
    parts = ["<Deleted>", element("Key", done.key)]
    if asked_id is not None:
        parts.append(element("VersionId", asked_id))
    if done.is_marker:
        parts.append("<DeleteMarker>true</DeleteMarker>")
        parts.append(element("DeleteMarkerVersionId", done.version_id or ""))
    parts.append("</Deleted>")
    return "".join(parts)


def checksum_elements(checksums: Iterable[Checksum], *, has_type: bool = True) -> list[str]:
    """`ChecksumCRC32` and so on, and of which kind they are."""
    found = list(checksums)
    parts = [element(f"Checksum{one.algorithm.value}", one.value) for one in found]
    if found and has_type:
        parts.append(element("ChecksumType", _kind(is_composite=found[0].is_composite)))
    return parts


def copied_object(info: ObjectInfo) -> bytes:
    return document(
        "CopyObjectResult",
        [
            f"<LastModified>{told_time(info.modified_ms)}</LastModified>",
            _etag(info.etag),
            *checksum_elements(info.checksums),
        ],
    )


def copied_part(part: PartInfo) -> bytes:
    return document(
        "CopyPartResult",
        [
            f"<LastModified>{told_time(part.modified_ms)}</LastModified>",
            _etag(part.etag),
            *checksum_elements(part.checksums, has_type=False),
        ],
    )


def upload_begun(upload: UploadInfo) -> bytes:
    return document(
        "InitiateMultipartUploadResult",
        [
            element("Bucket", upload.bucket),
            element("Key", upload.key),
            element("UploadId", upload.upload_id),
        ],
    )


def upload_completed(info: ObjectInfo, *, location: str) -> bytes:
    """`location` is the address of the new object."""
    return document(
        "CompleteMultipartUploadResult",
        [
            element("Location", location),
            element("Bucket", info.bucket),
            element("Key", info.key),
            _etag(info.etag),
            *checksum_elements(info.checksums),
        ],
    )


def list_parts(
    page: PartPage, *, marker: int, max_parts: int, is_url_encoded: bool = False
) -> bytes:
    """`max_parts` as it is told."""
    upload = page.upload
    parts = [
        element("Bucket", upload.bucket),
        f"<Key>{told_key(upload.key, is_url_encoded=is_url_encoded)}</Key>",
        element("UploadId", upload.upload_id),
        INITIATOR,
        OWNER,
        element("StorageClass", STORAGE_CLASS),
        f"<PartNumberMarker>{marker}</PartNumberMarker>",
    ]
    if page.next_number is not None:
        parts.append(f"<NextPartNumberMarker>{page.next_number}</NextPartNumberMarker>")
    parts.append(f"<MaxParts>{max_parts}</MaxParts>")
    parts.append(f"<IsTruncated>{told_bool(page.next_number is not None)}</IsTruncated>")
    if upload.algorithm is not None:
        parts.append(element("ChecksumAlgorithm", upload.algorithm.value))
        parts.append(element("ChecksumType", _kind(is_composite=upload.is_composite)))
    if is_url_encoded:
        parts.append("<EncodingType>url</EncodingType>")
    parts += map(_listed_part, page.parts)
    return document("ListPartsResult", parts)


def _listed_part(part: PartInfo) -> str:
    parts = [
        f"<Part><PartNumber>{part.number}</PartNumber>",
        f"<LastModified>{told_time(part.modified_ms)}</LastModified>",
        _etag(part.etag),
        f"<Size>{part.size}</Size>",
        *checksum_elements(part.checksums, has_type=False),
        "</Part>",
    ]
    return "".join(parts)


def _etag(etag: str) -> str:
    return element("ETag", f'"{etag}"')


def _kind(*, is_composite: bool) -> str:
    return "COMPOSITE" if is_composite else "FULL_OBJECT"
