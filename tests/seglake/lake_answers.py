"""What a lake answers, in the words of the model: values, errors, and pages one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.seglake.errors import MethodNotAllowed, NoSuchKey
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.model import NULL_VERSION, ObjectInfo, Page
from tests.fakes.object_model import Entry, ModelVersion


class Answer(NamedTuple):
    """What a call gave: a value, or the kind of its error and what the error tells."""

    value: Any = None
    error: type[LakebedError] | None = None
    marker_id: str | None = None


def answer(call: Callable[[], Any]) -> Answer:
    try:
        return Answer(call())
    except (NoSuchKey, MethodNotAllowed) as error:
        return Answer(error=type(error), marker_id=error.marker_id)
    except LakebedError as error:
        return Answer(error=type(error))


def described(info: ObjectInfo) -> ModelVersion:
    """All that the model knows of a version, but its bytes."""
    return ModelVersion(info.shown_version_id, None, info.etag, info.content, info.part_sizes)


def walked(
    page_of: Callable[[str, str | None], Page[Any]], *, size: int, after: str, after_id: str | None
) -> list[Entry]:
    """All pages from there on: every one full but the last, and each in order."""
    found: list[Entry] = []
    while True:
        page = page_of(after, after_id)
        entries = [_entry(item) for item in page.items]
        entries += [Entry(prefix, None) for prefix in page.prefixes]
        entries.sort(key=lambda entry: entry.name.encode())  # versions of a key stay in order
        found += entries
        if page.next_marker is None:
            assert len(entries) <= size
            return found
        assert len(entries) == size
        assert (page.next_marker, page.next_id) == marker_behind(page, entries[-1])
        after, after_id = page.next_marker, page.next_id


def marker_behind(page: Page[Any], last: Entry) -> tuple[str, str | None]:
    """Of the entry that a page ends with; objects are marked by their keys alone."""
    if page.items and isinstance(page.items[-1], VersionRow):
        return last.name, page.next_id
    return last.name, last.item_id


def _entry(item: VersionRow | ListedVersion | UploadRow) -> Entry:
    if isinstance(item, UploadRow):
        return Entry(item.key, item.upload_id)
    if isinstance(item, ListedVersion):
        version_id = NULL_VERSION if item.row.is_null else item.row.version_id
        return Entry(item.row.key, version_id, is_latest=item.is_latest)
    return Entry(item.key, None)
