"""`lakebed s3 ls`: pages of keys and common prefixes, printed as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.s3_stores import Place, parse_place
from lakebed.cli.stores import open_to_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.api.read_surface import ReadableBucket
    from lakebed.seglake.listing import ListedVersion
    from lakebed.seglake.meta.rows import VersionRow
    from lakebed.seglake.model import Page

    AnyPage = Page[VersionRow] | Page[ListedVersion]

_PAGE_MAX = 1000


def ls(
    context: typer.Context,
    place: Annotated[str, typer.Argument(metavar="BUCKET[/PREFIX]", help="What to list.")],
    recursive: Annotated[
        bool, typer.Option("--recursive", help="All keys, and no common prefixes.")
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="All versions and delete markers.")
    ] = False,
    count_max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=0, help="At most so many entries.")
    ] = None,
) -> None:
    """List the objects of a bucket whose keys begin with a prefix.

    Keys that share what comes up to the next slash are one line, marked PRE, and names begin
    behind the last slash that was given. With --recursive there are whole keys instead.

    \b
    lakebed s3 ls photos
    lakebed s3 ls photos/2025/ --recursive
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
            document = _document(where, pages, name="versions" if versions else "objects")
            run.output.result(document, lines=())
            return
        # As `aws s3 ls` has it: names begin behind the last slash that was asked for.
        start = 0 if recursive else where.key.rfind("/") + 1
        for page in pages:
            run.output.result({}, lines=_lines(page, start))


def _lines(page: AnyPage, start: int) -> list[str]:
    from lakebed.cli.s3_tables import entry_line, prefix_line

    return [
        *(prefix_line(prefix, start) for prefix in page.prefixes),
        *(entry_line(item, start) for item in page.items),
    ]


def _document(place: Place, pages: Iterator[AnyPage], *, name: str) -> dict[str, object]:
    from lakebed.cli.s3_tables import entry_document

    prefixes: list[str] = []
    items: list[dict[str, object]] = []
    is_truncated = False
    for page in pages:
        prefixes += page.prefixes
        items += map(entry_document, page.items)
        is_truncated = page.is_truncated
    return {
        "bucket": place.bucket,
        "prefix": place.key,
        "prefixes": prefixes,
        name: items,
        "is_truncated": is_truncated,
    }


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
