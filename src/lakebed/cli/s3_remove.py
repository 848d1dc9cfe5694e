"""`lakebed s3 rm`: one object, one version, or everything with a prefix."""

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
    VersionOption,
    open_bucket_to_write,
    parse_object_place,
    parse_place,
)
from lakebed.cli.topic_arguments import YesOption, require_yes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakebed.api.surface import Bucket
    from lakebed.seglake.model import ObjectToDelete


_PAGE_MAX = 1000


def rm(
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(metavar="BUCKET/KEY", help="Which object, or with --recursive a prefix."),
    ],
    version_id: VersionOption = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="All objects whose keys begin with it.")
    ] = False,
    versions: Annotated[
        bool, typer.Option("--versions", help="With --recursive: all versions too, for good.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Remove an object: where versions are kept, a delete marker hides it from then on.

    With --version-id that version is removed for good; if it was a delete marker, the object is
    back.

    \b
    lakebed s3 rm photos/2025/city.jpg
    lakebed s3 rm photos/2025/ --recursive
    lakebed s3 rm photos --recursive --versions --yes
    """
    from lakebed.base.errors import InputError

    run = invocation(context)
    if recursive and version_id is not None:
        raise InputError("--recursive and --version-id exclude each other")
    if versions and not recursive:
        raise InputError("--versions needs --recursive; one version is removed by --version-id")
    if recursive:
        _remove_all(run, parse_place(place), versions=versions, yes=yes)
    else:
        _remove_one(run, parse_object_place(place), version_id)


def _remove_one(run: Invocation, place: Place, version_id: str | None) -> None:
    from lakebed.seglake.errors import MethodNotAllowed

    with open_bucket_to_write(run, place.bucket) as store:
        bucket = store.open_bucket(place.bucket)
        if version_id is None:
            deleted = bucket.delete(place.key, if_match="*")
        else:
            with suppress(MethodNotAllowed):  # a delete marker, which is there
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
        require_yes(yes, what=f"this removes all versions of what begins with {place}")
    noun = "version" if versions else "object"
    done = 0
    failed: list[tuple[str, Exception]] = []
    with (
        open_bucket_to_write(run, place.bucket) as store,
        Progress("rm") as progress,
        HeldInterrupts() as interrupts,
    ):
        bucket = store.open_bucket(place.bucket)
        for doomed in _pages(bucket, place.key, versions=versions):
            results = bucket.delete_many(doomed)
            for one, result in zip(doomed, results, strict=True):
                if isinstance(result, Exception):
                    failed.append((one.key, result))
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
    """What is there, a page at a time; what is removed meanwhile moves no page."""
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
    # With spec_version_listing an unversioned bucket lists none; its objects are removed for good.
    marker = ""
    while marker is not None:
        found = bucket.list_page(prefix, after=marker, max_keys=_PAGE_MAX)
        if found.items:
            yield [ObjectToDelete(row.key) for row in found.items]
        marker = found.next_marker
