"""`lakebed s3 ls`: lists objects and common prefixes, page by page."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.report import Column, Text, Value, objects
from lakebed.cli.s3_arguments import parse_place
from lakebed.cli.store_access import open_to_read
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.api.read_surface import ReadableBucket
    from lakebed.seglake.listing import ListedVersion
    from lakebed.seglake.meta.rows import VersionRow
    from lakebed.seglake.model import Page

    AnyPage = Page[VersionRow] | Page[ListedVersion]

_PAGE_MAX = 1000
_SIZE_CHARACTERS = 13
_TIME_CHARACTERS = len("2025-01-31T12:00:00.000Z")
_ID_CHARACTERS = 32
_KIND_CHARACTERS = len("deleted")


def ls(
    context: typer.Context,
    place: Annotated[
        str, typer.Argument(metavar="BUCKET[/PREFIX]", help="The bucket and the prefix to list.")
    ],
    recursive: Annotated[
        bool, typer.Option("--recursive", help="List all keys in full, without grouping them.")
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="List all versions and delete markers.")
    ] = False,
    count_max: Annotated[
        int | None,
        typer.Option(
            "--max", metavar="N", min=0, help="List at most N objects, versions and groups of keys."
        ),
    ] = None,
) -> None:
    """List the objects of a bucket whose keys begin with a prefix.

    As in aws s3 ls, keys are grouped at the next slash after the prefix; a group is shown as PRE,
    and names begin after the last slash of the argument. With --recursive all keys are listed in
    full. With --json, keys are always in full.

    \b
    Examples:
      List a bucket:
        lakebed s3 ls photos
      List all keys with a prefix:
        lakebed s3 ls photos/2025/ --recursive
      List the versions of an object:
        lakebed s3 ls photos/2025/city.jpg --versions
    """
    run = invocation(context)
    where = parse_place(place)
    delimiter = "" if recursive else "/"
    with open_to_read(run) as store:
        bucket = store.open_bucket(where.bucket)
        pages: Iterator[AnyPage] = (
            _version_pages(bucket, where.key, delimiter, count_max)
            if versions
            else _object_pages(bucket, where.key, delimiter, count_max)
        )
        if run.output.as_json:
            prefixes: list[str] = []
            items: list[dict[str, object]] = []
            is_truncated = False
            for page in pages:
                prefixes += page.prefixes
                items += objects(VERSION if versions else OBJECT, page.items)
                is_truncated = page.is_truncated
            run.output.show(
                Value("bucket", where.bucket),
                Value("prefix", where.key),
                Value("prefixes", prefixes),
                Value("versions" if versions else "objects", items),
                Value("is_truncated", is_truncated),
            )
            return
        # As in `aws s3 ls`: names begin after the last slash of the argument.
        start = 0 if recursive else where.key.rfind("/") + 1
        for page in pages:
            run.output.show(
                Text(*(_prefix_line(prefix, start) for prefix in page.prefixes)),
                Text(*(_entry_line(item, start) for item in page.items)),
            )


def _object_pages(
    bucket: ReadableBucket, prefix: str, delimiter: str, count_max: int | None
) -> Iterator[Page[VersionRow]]:
    marker: str | None = ""
    left = count_max
    while marker is not None and left != 0:
        page = bucket.list_page(
            prefix,
            delimiter=delimiter,
            after=marker,
            max_keys=_PAGE_MAX if left is None else min(left, _PAGE_MAX),
        )
        yield page
        marker, left = page.next_marker, _left(left, page)


def _version_pages(
    bucket: ReadableBucket, prefix: str, delimiter: str, count_max: int | None
) -> Iterator[Page[ListedVersion]]:
    marker: str | None = ""
    marker_id: str | None = None
    left = count_max
    while marker is not None and left != 0:
        page = bucket.version_page(
            prefix,
            delimiter=delimiter,
            key_marker=marker,
            version_id_marker=marker_id,
            max_keys=_PAGE_MAX if left is None else min(left, _PAGE_MAX),
        )
        yield page
        marker, marker_id, left = page.next_marker, page.next_id, _left(left, page)


def _left(left: int | None, page: AnyPage) -> int | None:
    return None if left is None else left - len(page.items) - len(page.prefixes)


# Listings may be long: lines are printed page by page, so columns have a fixed width.


def _prefix_line(prefix: str, start: int) -> str:
    return f"{'PRE':>{_TIME_CHARACTERS + 2 + _SIZE_CHARACTERS}}  {prefix[start:]}"


def _entry_line(entry: VersionRow | ListedVersion, start: int) -> str:
    """Formats an entry as a line. The name is the key from index `start` on."""
    row, is_latest = _row_of(entry)
    is_marker = row.state.value == "DELETED"
    size = "-" if is_marker else str(row.size)
    columns = [moment_ms_text(row.modified_ms), f"{size:>{_SIZE_CHARACTERS}}"]
    if is_latest is not None:
        kind = "deleted" if is_marker else "newest" if is_latest else "old"
        columns += [f"{_version_id(row):<{_ID_CHARACTERS}}", f"{kind:<{_KIND_CHARACTERS}}"]
    return "  ".join([*columns, row.key[start:]])


def _row_of(entry: VersionRow | ListedVersion) -> tuple[VersionRow, bool | None]:
    """Returns the row of an entry, and whether it is the newest version of its key; None instead if
    objects are listed, not versions."""
    from lakebed.seglake.listing import ListedVersion

    return entry if isinstance(entry, ListedVersion) else (entry, None)


def _version_id(row: VersionRow) -> str:
    return "null" if row.is_null else row.version_id


OBJECT = (
    Column("key"),
    Column("size"),
    Column("etag"),
    Column("modified", "modified_ms", json=moment_ms_text),
    Column("modified_ms"),
    Column("content_type"),
    Column("state"),
)
VERSION = (
    *(
        replace(column, source=attrgetter(f"row.{column.source or column.key}"))
        for column in OBJECT
    ),
    Column("version_id", lambda version: _version_id(version.row)),
    Column("is_latest"),
)
