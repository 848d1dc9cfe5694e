"""`lakebed s3`: the buckets, objects and access keys of a store.

Commands that only read take no lock and work while another process writes. Only `buckets create`
and `keys create` create a store if there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli import s3_buckets, s3_keys, s3_listing, s3_remove, s3_transfer
from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Rows, Text, Value, counted, object_of
from lakebed.cli.s3_arguments import (
    ObjectPlace,
    Place,
    VersionOption,
    parse_object_place,
    parse_place,
)
from lakebed.cli.s3_transfer import OBJECT
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_to_read, quiet
from lakebed.cli.values import moment_ms_text

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.seglake.model import ObjectInfo
    from lakebed.seglake.verification_report import Problem, Report

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Manage buckets, objects and access keys.",
)
app.add_typer(s3_buckets.app, name="buckets")
app.add_typer(s3_keys.app, name="keys")
app.command()(s3_listing.ls)
app.command()(s3_transfer.put)
app.command()(s3_transfer.get)
app.command()(s3_remove.rm)


@app.command()
def stat(context: typer.Context, place: ObjectPlace, version_id: VersionOption = None) -> None:
    """Show the properties of an object: size, ETag, version, headers, metadata, checksums.

    \b
    Examples:
      Show an object:
        lakebed s3 stat photos/2025/city.jpg
    """
    run = invocation(context)
    bucket, key = parse_object_place(place)
    with open_to_read(run) as store:
        info = store.open_bucket(bucket).head(key, version_id=version_id)
    run.output.show(Item(OBJECT, info), Rows("", FACTS, _facts(info), is_headed=False))


@app.command()
def verify(
    context: typer.Context,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[BUCKET[/PREFIX]]",
            help="Verify only the objects in this bucket, or with this prefix. Default: all.",
        ),
    ] = None,
) -> None:
    """Verify the bytes of all objects, and the metadata of the object store.

    The exit code is 65 if anything is damaged. Works while another process writes. Changes nothing:
    damaged objects are not marked (see lakebed verify --mark).

    \b
    Examples:
      Verify all objects:
        lakebed s3 verify
      Verify objects with a prefix:
        lakebed s3 verify photos/2025/
    """
    from lakebed.base.units import MIB

    run = invocation(context)
    only = None if place is None else parse_place(place)
    with quiet("lakebed.seglake"), open_to_read(run) as store, Progress("verify") as progress:

        def show(read_bytes: int, _total: int) -> None:
            progress.count(read_bytes // MIB, "MiB")

        report = store.maintenance.verify_objects(
            bucket=None if only is None else only.bucket,
            prefix="" if only is None else only.key,
            progress=show,
        )
    run.output.show(
        Value("bucket", None if only is None else only.bucket),
        Value("prefix", None if only is None else only.key),
        Item(OBJECTS_REPORT, report),
        Text(*_findings(only, report), *(f"note: {note}" for note in report.notes)),
    )
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _facts(info: ObjectInfo) -> list[tuple[str, str]]:
    content = info.content
    facts = [
        ("bucket", info.bucket),
        ("key", info.key),
        ("version", info.shown_version_id + ("" if info.is_latest else " (not the newest)")),
        ("state", info.state.value),
        ("size", str(info.size)),
        ("etag", info.etag),
        ("modified", moment_ms_text(info.modified_ms)),
        ("content-type", content.content_type),
        ("cache-control", content.cache_control),
        ("content-disposition", content.content_disposition),
        ("content-encoding", content.content_encoding),
        ("content-language", content.content_language),
        ("expires", content.expires),
        ("parts", str(len(info.part_sizes)) if info.part_sizes else None),
        *((f"checksum {each.algorithm.value}", each.value) for each in info.checksums),
        *((f"metadata {name}", value) for name, value in sorted(content.metadata.items())),
    ]
    return [(name, value) for name, value in facts if value is not None]


def _findings(place: Place | None, report: Report) -> list[str]:
    if report.problems:
        return list(map(str, report.problems))
    counts = [counted(report.versions, "version"), counted(report.chunks, "chunk")]
    counts += [counted(report.parts, "part")] if report.parts else []
    counts += [counted(report.segments, "segment")] if place is None else []
    counts += [counted(report.bytes, "byte")]
    where = "" if place is None else f"{place}: "
    return [f"{where}{', '.join(counts)}, all whole"]


def _problem_members(problem: Problem) -> dict[str, object]:
    """Returns the JSON members of a problem, without those that are None."""
    members = object_of(_PROBLEM, problem)
    return {name: value for name, value in members.items() if value is not None}


FACTS = (
    Column("", lambda fact: fact[0], "fact"),
    Column("", lambda fact: fact[1], "value"),
)
_PROBLEM = (
    Column("kind"),
    Column("problem", "why"),
    Column("bucket"),
    Column("key"),
    Column("version_id"),
    Column("upload_id"),
    Column("part_number"),
    Column("path"),
)
OBJECTS_REPORT = (
    Column("ok", lambda report: not report.problems),
    Column("versions"),
    Column("parts"),
    Column("chunks"),
    Column("bytes"),
    Column("segments"),
    Column("manifest_files"),
    Column("problems", json=lambda problems: [_problem_members(each) for each in problems]),
    Column("notes"),
)
