"""Pages of all that a bucket has, versions and parts of uploads, for who reads the whole of it.

A page goes on behind a place that was told, whether that is still there or not. So no version that
is there all the while is left out or told twice, whatever comes and goes between two pages. What a
page costs depends on its entries alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.reader import Reader, key_bytes
from lakebed.seglake.meta.rows import PartRow, UploadRow, VersionRow

UPLOADS_MAX = 1000  # looked at for one page: most have parts


class KeyRange(NamedTuple):
    """The keys `[start, end)` of a bucket, in the order of their bytes."""

    bucket: str
    start: bytes
    end: bytes


class VersionPlace(NamedTuple):
    """Of a version that was told, with all before it."""

    key: str
    hlc: str
    site_id: str


class PartPlace(NamedTuple):
    """Of a part that was told, with all before it; number 0 is before the upload's first."""

    key: str
    upload_id: str
    number: int


class ListedPart(NamedTuple):
    """A part of an upload that is under way."""

    key: str
    row: PartRow


class PartPage(NamedTuple):
    parts: list[ListedPart]
    last: PartPlace | None  # where the next page goes on; None if there is none


def versions_behind(
    reader: Reader, keys: KeyRange, last: VersionPlace | None, *, count_max: int
) -> list[ListedVersion]:
    """Versions and delete markers, by key and then the newest first."""
    older: Iterable[VersionRow] = ()
    start, key = keys.start, None
    if last is not None:
        key = last.key
        older = reader.versions_before(keys.bucket, key, hlc=last.hlc, site_id=last.site_id)
        start = max(start, _behind(key))
    page = []
    rows = chain(older, reader.versions_from(keys.bucket, start=start, end=keys.end))
    for row in islice(rows, count_max):
        page.append(ListedVersion(row, is_latest=row.key != key))
        key = row.key
    return page


def current_behind(
    reader: Reader, keys: KeyRange, last: VersionPlace | None, *, count_max: int
) -> list[ListedVersion]:
    """The newest version of each key; delete markers are none."""
    start = keys.start if last is None else max(keys.start, _behind(last.key))
    rows = reader.current_from(keys.bucket, start=start, end=keys.end)
    return [ListedVersion(row, is_latest=True) for row in islice(rows, count_max)]


def parts_behind(
    reader: Reader,
    keys: KeyRange,
    last: PartPlace | None,
    *,
    count_max: int,
    uploads_max: int = UPLOADS_MAX,
) -> PartPage:
    """Parts by key, upload and number. A page may have none, and yet there are more."""
    parts: list[ListedPart] = []
    looked, looked_max = 0, uploads_max + (last is not None)
    for place in islice(_uploads_behind(reader, keys, last), looked_max):
        looked += 1
        left = count_max - len(parts)
        rows = reader.parts(place.upload_id, after=place.number, limit=left)
        parts += [ListedPart(place.key, row) for row in rows]
        last = place._replace(number=rows[-1].number) if rows else place
        if len(parts) == count_max:
            return PartPage(parts, last)
    return PartPage(parts, last if looked == looked_max else None)


def _uploads_behind(reader: Reader, keys: KeyRange, last: PartPlace | None) -> Iterator[PartPlace]:
    """The upload that was being told, if it is still there, and those behind it."""
    rest: Iterable[UploadRow] = ()
    start = keys.start
    if last is not None:
        begun = reader.upload(last.upload_id)
        if begun is not None and (begun.bucket, begun.key) == (keys.bucket, last.key):
            yield last
        rest = reader.uploads_after(keys.bucket, last.key, upload_id=last.upload_id)
        start = max(start, _behind(last.key))
    for upload in chain(rest, reader.uploads_from(keys.bucket, start=start, end=keys.end)):
        yield PartPlace(upload.key, upload.upload_id, 0)


def _behind(key: str) -> bytes:
    """The first place behind that key."""
    return key_bytes(key) + b"\0"
