"""`lakebed s3 rm`: removes an object, a version, or all objects with a prefix."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Text, Value, counted
from lakebed.cli.s3_arguments import (
    Place,
    open_bucket_to_write,
    parse_object_place,
    parse_place,
)
from lakebed.cli.topic_arguments import require_yes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakebed.api.surface import Bucket
    from lakebed.seglake.model import ObjectToDelete


_PAGE_MAX = 1000


def rm(
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            metavar="BUCKET/KEY",
            help="The object to remove; with --recursive, the prefix of the keys to remove.",
        ),
    ],
    version_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Remove this version permanently. Default: remove the object; in a versioned "
            "bucket, its versions are kept, and a delete marker hides them.",
        ),
    ] = None,
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive",
            help="Remove all objects whose keys begin with KEY; without KEY, all objects of the "
            "bucket.",
        ),
    ] = False,
    versions: Annotated[
        bool,
        typer.Option(
            "--versions",
            help="With --recursive: remove all versions and delete markers permanently. "
            "Requires --yes.",
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="With --versions: confirm that all versions are removed permanently. Other "
            "removals need no confirmation.",
        ),
    ] = False,
) -> None:
    """Remove an object. In a versioned bucket this adds a delete marker, which hides the object.

    With --version-id, that version is removed permanently. Removing the delete marker that hides an
    object makes its newest version visible again.

    \b
    Examples:
      Remove an object:
        lakebed s3 rm photos/2025/city.jpg
      Remove all objects with a prefix:
        lakebed s3 rm photos/2025/ --recursive
      Remove all versions of all objects of a bucket:
        lakebed s3 rm photos --recursive --versions --yes
    """
    from lakebed.base.errors import InputError

    run = invocation(context)
    if recursive and version_id is not None:
        raise InputError("--recursive and --version-id cannot be combined: give one of them")
    if versions and not recursive:
        raise InputError(
            "--versions needs --recursive; to remove a single version, use --version-id"
        )
    if recursive:
        _remove_all(run, parse_place(place), versions=versions, yes=yes)
    else:
        _remove_object(run, parse_object_place(place), version_id)


def _remove_object(run: Invocation, place: Place, version_id: str | None) -> None:
    from lakebed.seglake.errors import MethodNotAllowed

    with open_bucket_to_write(run, place.bucket) as store:
        bucket = store.open_bucket(place.bucket)
        if version_id is None:
            deleted = bucket.delete(place.key, if_match="*")
        else:
            with suppress(MethodNotAllowed):  # a delete marker exists
                bucket.head(place.key, version_id=version_id)
            deleted = bucket.delete(place.key, version_id=version_id)
    if version_id is not None:
        line = f"{place}: removed version {version_id}"
    elif deleted.is_marker:
        line = f"{place}: deleted, the delete marker is version {deleted.version_id}"
    else:
        line = f"{place}: removed"
    run.output.show(
        Value("bucket", place.bucket),
        Value("key", place.key),
        Value("version_id", deleted.version_id),
        Value("is_delete_marker", deleted.is_marker),
        Text(line),
    )


def _remove_all(run: Invocation, place: Place, *, versions: bool, yes: bool) -> None:
    if versions:
        require_yes(yes, what=f"this removes all versions of all objects that begin with {place}")
    noun = "version" if versions else "object"
    done = 0
    failed: list[tuple[str, Exception]] = []
    with (
        open_bucket_to_write(run, place.bucket) as store,
        Progress("rm") as progress,
        HeldInterrupts() as interrupts,
    ):
        bucket = store.open_bucket(place.bucket)
        for page in _pages(bucket, place.key, versions=versions):
            results = bucket.delete_many(page)
            for target, result in zip(page, results, strict=True):
                if isinstance(result, Exception):
                    failed.append((target.key, result))
                else:
                    done += 1
            progress.count(done, f"{noun}s")
            interrupts.raise_kept()
    run.output.show(
        Value("bucket", place.bucket),
        Value("prefix", place.key),
        Value("removed", done),
        Value("errors", [{"key": key, "message": str(error)} for key, error in failed]),
        Text(*(f"{place.bucket}/{key}: {error}" for key, error in failed)),
        Text(f"{place}: removed {counted(done, noun)}"),
    )
    if failed:
        raise typer.Exit(getattr(failed[0][1], "exit_code", 70))


def _pages(bucket: Bucket, prefix: str, *, versions: bool) -> Iterator[Sequence[ObjectToDelete]]:
    """Yields the objects to remove in pages; with `versions`, also all versions and delete markers.

    The caller may remove a page before it requests the next page.
    """
    from lakebed.seglake.model import NULL_VERSION, ObjectToDelete

    marker: str | None = ""
    marker_id: str | None = None
    while versions and marker is not None:
        page = bucket.version_page(
            prefix, key_marker=marker, version_id_marker=marker_id, max_keys=_PAGE_MAX
        )
        if page.items:
            yield [
                ObjectToDelete(row.key, NULL_VERSION if row.is_null else row.version_id)
                for row, _ in page.items
            ]
        marker, marker_id = page.next_marker, page.next_id
    # With spec_version_listing an unversioned bucket lists no versions, only objects.
    marker = ""
    while marker is not None:
        listed = bucket.list_page(prefix, after=marker, max_keys=_PAGE_MAX)
        if listed.items:
            yield [ObjectToDelete(row.key) for row in listed.items]
        marker = listed.next_marker
