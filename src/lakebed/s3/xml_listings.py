"""The pages of listings as documents: written row by row, since a page may have 1,000.

With `encoding-type=url` keys and prefixes, and the markers and delimiters that are like them, are
percent-encoded; nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from lakebed.s3.operations import (
    Listing,
    ListMultipartUploads,
    ListObjects,
    ListObjectsV2,
    ListObjectVersions,
)
from lakebed.s3.xml_documents import (
    INITIATOR,
    OWNER,
    STORAGE_CLASS,
    document,
    told_bool,
    told_key,
    told_time,
)
from lakebed.s3.xml_text import element
from lakebed.seglake.listing import PAGE_MAX, ListedVersion
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.model import NULL_VERSION, Page, State
from lakebed.seglake.upload_rows import upload_info

_STORAGE: Final = f"<StorageClass>{STORAGE_CLASS}</StorageClass>"

_Told = Callable[[str], str]


def list_objects(operation: ListObjects, page: Page[VersionRow]) -> bytes:
    told = _telling(operation)
    parts = _head(operation, told)
    parts.append(f"<Marker>{told(operation.marker)}</Marker>")
    if page.next_marker is not None:
        parts.append(f"<NextMarker>{told(page.next_marker)}</NextMarker>")
    parts += _counts(operation, "MaxKeys", page.is_truncated)
    parts += [_contents(row, told, owner=OWNER) for row in page.items]
    parts += _prefixes(page.prefixes, told)
    return document("ListBucketResult", parts)


def list_objects_v2(
    operation: ListObjectsV2, page: Page[VersionRow], *, next_token: str | None
) -> bytes:
    told = _telling(operation)
    parts = _head(operation, told)
    if operation.start_after:
        parts.append(f"<StartAfter>{told(operation.start_after)}</StartAfter>")
    if operation.continuation_token is not None:
        parts.append(element("ContinuationToken", operation.continuation_token))
    if next_token is not None:
        parts.append(element("NextContinuationToken", next_token))
    parts.append(f"<KeyCount>{len(page.items) + len(page.prefixes)}</KeyCount>")
    parts += _counts(operation, "MaxKeys", page.is_truncated)
    owner = OWNER if operation.fetches_owner else ""
    parts += [_contents(row, told, owner=owner) for row in page.items]
    parts += _prefixes(page.prefixes, told)
    return document("ListBucketResult", parts)


def list_versions(operation: ListObjectVersions, page: Page[ListedVersion]) -> bytes:
    told = _telling(operation)
    parts = _head(operation, told)
    parts.append(f"<KeyMarker>{told(operation.key_marker)}</KeyMarker>")
    parts.append(element("VersionIdMarker", operation.version_id_marker or ""))
    if page.next_marker is not None:
        parts.append(f"<NextKeyMarker>{told(page.next_marker)}</NextKeyMarker>")
    if page.next_id is not None:
        parts.append(element("NextVersionIdMarker", page.next_id))
    parts += _counts(operation, "MaxKeys", page.is_truncated)
    parts += [_version(item, told) for item in page.items]
    parts += _prefixes(page.prefixes, told)
    return document("ListVersionsResult", parts)


def list_uploads(operation: ListMultipartUploads, page: Page[UploadRow]) -> bytes:
    told = _telling(operation)
    parts = _head(operation, told, bucket="Bucket")
    parts.append(f"<KeyMarker>{told(operation.key_marker)}</KeyMarker>")
    parts.append(element("UploadIdMarker", operation.upload_id_marker or ""))
    if page.next_marker is not None:
        parts.append(f"<NextKeyMarker>{told(page.next_marker)}</NextKeyMarker>")
    if page.next_id is not None:
        parts.append(element("NextUploadIdMarker", page.next_id))
    parts += _counts(operation, "MaxUploads", page.is_truncated)
    parts += [_upload(row, told) for row in page.items]
    parts += _prefixes(page.prefixes, told)
    return document("ListMultipartUploadsResult", parts)


def _telling(operation: Listing) -> _Told:
    return partial(told_key, is_url_encoded=operation.is_url_encoded)


def _head(operation: Listing, told: _Told, *, bucket: str = "Name") -> list[str]:
    parts = [
        element(bucket, operation.bucket),
        f"<Prefix>{told(operation.prefix)}</Prefix>",
    ]
    if operation.delimiter:
        parts.append(f"<Delimiter>{told(operation.delimiter)}</Delimiter>")
    if operation.is_url_encoded:
        parts.append("<EncodingType>url</EncodingType>")
    return parts


def _counts(operation: Listing, name: str, is_truncated: bool) -> list[str]:
    return [
        f"<{name}>{min(operation.max_keys, PAGE_MAX)}</{name}>",
        f"<IsTruncated>{told_bool(is_truncated)}</IsTruncated>",
    ]


def _contents(row: VersionRow, told: _Told, *, owner: str) -> str:
    return (
        f"<Contents><Key>{told(row.key)}</Key>"
        f"<LastModified>{told_time(row.modified_ms)}</LastModified>"
        f"<ETag>&quot;{row.etag}&quot;</ETag><Size>{row.size}</Size>{owner}{_STORAGE}</Contents>"
    )


def _version(item: ListedVersion, told: _Told) -> str:
    row, is_latest = item
    name, about = "DeleteMarker", ""
    if row.state is not State.DELETED:
        name = "Version"
        about = f"<ETag>&quot;{row.etag}&quot;</ETag><Size>{row.size}</Size>{_STORAGE}"
    version_id = NULL_VERSION if row.is_null else row.version_id
    return (
        f"<{name}><Key>{told(row.key)}</Key><VersionId>{version_id}</VersionId>"
        f"<IsLatest>{told_bool(is_latest)}</IsLatest>"
        f"<LastModified>{told_time(row.modified_ms)}</LastModified>{about}{OWNER}</{name}>"
    )


def _upload(row: UploadRow, told: _Told) -> str:
    upload = upload_info(row)
    checksum = ""
    if upload.algorithm is not None:
        kind = "COMPOSITE" if upload.is_composite else "FULL_OBJECT"
        checksum = (
            f"<ChecksumAlgorithm>{upload.algorithm.value}</ChecksumAlgorithm>"
            f"<ChecksumType>{kind}</ChecksumType>"
        )
    return (
        f"<Upload><Key>{told(row.key)}</Key>{element('UploadId', row.upload_id)}"
        f"{INITIATOR}{OWNER}{_STORAGE}"
        f"<Initiated>{told_time(row.initiated_ms)}</Initiated>{checksum}</Upload>"
    )


def _prefixes(prefixes: Sequence[str], told: _Told) -> list[str]:
    return [
        f"<CommonPrefixes><Prefix>{told(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes
    ]
