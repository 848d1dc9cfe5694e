"""Lists objects, versions and uploads in pages, with prefixes and delimiters as in S3.

Entries (objects, versions or uploads, and common prefixes) are listed in bytewise order of the key
or common prefix. A page has at most `PAGE_MAX` entries, even if more are requested. A common prefix
is the part of a key up to and including the first delimiter after the requested prefix; all keys
that share it are listed as one entry. A page starts after its marker. If the marker is a common
prefix, or a key that belongs to one, the page starts after all keys with that common prefix.

The cost of a page depends only on the number of its entries: each common prefix takes one seek to
the first key after it, however many keys share the prefix, and a listing of objects does not read
delete markers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

from lakebed.seglake.meta.reader import KEYS_END, Reader, key_bytes
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.model import NULL_VERSION, Page

PAGE_MAX = 1000

Row = TypeVar("Row", VersionRow, UploadRow)


class ListedVersion(NamedTuple):
    """A version or delete marker, and whether it is the newest of its key."""

    row: VersionRow
    is_latest: bool


def list_objects(
    reader: Reader,
    bucket: str,
    *,
    prefix: str = "",
    delimiter: str = "",
    after: str = "",
    max_keys: int = PAGE_MAX,
) -> Page[VersionRow]:
    """Returns a page of objects, and of common prefixes, that come after the marker `after`."""
    span = _Span(prefix, delimiter)

    def rows_from(start: bytes) -> Iterator[VersionRow]:
        return reader.current_from(bucket, start=start, end=span.end)

    return _page(span, rows_from, start=span.start_after(after), count_max=max_keys)


def list_versions(
    reader: Reader,
    bucket: str,
    *,
    prefix: str = "",
    delimiter: str = "",
    key_marker: str = "",
    version_id_marker: str | None = None,
    max_keys: int = PAGE_MAX,
) -> Page[ListedVersion]:
    """Returns a page of versions and delete markers, in order of key and newest first within a key.

    With `version_id_marker`, the page starts after that version of the key `key_marker`. If that
    version no longer exists, the page starts with the newest version of the key, so that versions
    may be listed again, but none is left out.
    """
    span = _Span(prefix, delimiter)
    start = span.start_after(key_marker)
    marked = None
    if version_id_marker and span.has_own_entry(key_marker):
        marked = _find(reader, bucket, key_marker, version_id_marker)
        if marked is None:
            start = key_bytes(key_marker)

    def rows_from(start: bytes) -> Iterator[VersionRow]:
        return reader.versions_from(bucket, start=start, end=span.end)

    older_rows = () if marked is None else reader.versions_older(marked)
    page = _page(span, rows_from, start=start, count_max=max_keys, first=older_rows)
    items = []
    key = None if marked is None else marked.key
    for row in page.items:
        items.append(ListedVersion(row, is_latest=row.key != key))
        key = row.key
    return Page(items, page.prefixes, page.next_marker, page.next_id)


def list_uploads(
    reader: Reader,
    bucket: str,
    *,
    prefix: str = "",
    delimiter: str = "",
    key_marker: str = "",
    upload_id_marker: str | None = None,
    max_uploads: int = PAGE_MAX,
) -> Page[UploadRow]:
    """Returns a page of multipart uploads in progress, in order of key, then upload id.

    With `upload_id_marker`, the page starts after that upload of the key `key_marker`.
    """
    span = _Span(prefix, delimiter)

    def rows_from(start: bytes) -> Iterator[UploadRow]:
        return reader.uploads_from(bucket, start=start, end=span.end)

    later_rows: Iterable[UploadRow] = ()
    if upload_id_marker and span.has_own_entry(key_marker):
        later_rows = reader.uploads_after(bucket, key_marker, upload_id=upload_id_marker)
    start = span.start_after(key_marker)
    return _page(span, rows_from, start=start, count_max=max_uploads, first=later_rows)


def key_range_after(prefix: str, after: str) -> tuple[bytes, bytes]:
    """Returns the range `[start, end)` of the keys with `prefix` that come after `after`."""
    span = _Span(prefix, "")
    return span.start_after(after), span.end


class _Span:
    """The keys that begin with a prefix, and how a delimiter groups them."""

    def __init__(self, prefix: str, delimiter: str) -> None:
        self._prefix = prefix
        self._delimiter = delimiter
        self.end = _end_of(prefix)  # sorts after all keys with the prefix

    def common_prefix(self, key: str) -> str | None:
        """Returns the common prefix that the key belongs to, or None if it is listed by itself."""
        if not self._delimiter:
            return None
        index = key.find(self._delimiter, len(self._prefix))
        return None if index < 0 else key[: index + len(self._delimiter)]

    def has_own_entry(self, key: str) -> bool:
        """Whether the key is listed by itself, not as part of a common prefix."""
        return key.startswith(self._prefix) and self.common_prefix(key) is None

    def start_after(self, marker: str) -> bytes:
        """Returns the smallest key that may be listed on a page after the marker."""
        if not marker.startswith(self._prefix):
            return max(key_bytes(marker), key_bytes(self._prefix))
        common = self.common_prefix(marker)
        return key_bytes(marker) + b"\0" if common is None else _end_of(common)


def _page(
    span: _Span,
    rows_from: Callable[[bytes], Iterator[Row]],
    *,
    start: bytes,
    count_max: int,
    first: Iterable[Row] = (),
) -> Page[Row]:
    """Builds a page from the rows in `first`, then from those that `rows_from(start)` yields."""
    items: list[Row] = []
    prefixes: list[str] = []
    left = min(count_max, PAGE_MAX)
    if left <= 0:
        return Page(items, prefixes)
    marker, marker_id = "", None
    rows: Iterator[Row] = chain(first, rows_from(start))
    while (row := next(rows, None)) is not None:
        if not left:
            return Page(items, prefixes, marker, marker_id)
        left -= 1
        common = span.common_prefix(row.key)
        if common is None:
            items.append(row)
            marker, marker_id = row.key, _shown_id(row)
        else:
            prefixes.append(common)
            marker, marker_id = common, None
            rows = rows_from(_end_of(common))
    return Page(items, prefixes)


def _find(reader: Reader, bucket: str, key: str, version_id: str) -> VersionRow | None:
    if version_id == NULL_VERSION:
        return reader.null_version(bucket, key)
    return reader.version(bucket, key, version_id)


def _shown_id(row: VersionRow | UploadRow) -> str:
    if isinstance(row, UploadRow):
        return row.upload_id
    return NULL_VERSION if row.is_null else row.version_id


def _end_of(prefix: str) -> bytes:
    """Returns the smallest byte string that sorts after all keys with the prefix."""
    start = key_bytes(prefix)
    return start[:-1] + bytes([start[-1] + 1]) if start else KEYS_END  # UTF-8 never contains 0xff
