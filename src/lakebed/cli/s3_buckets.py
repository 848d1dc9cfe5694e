"""`lakebed s3 buckets`: creates, lists, configures and deletes buckets."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.report import Column, Item, Rows, Text, Value
from lakebed.cli.s3_arguments import BucketName, open_bucket_to_write
from lakebed.cli.store_access import open_to_read
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.seglake.model import Versioning

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="List, create, configure and delete buckets."
)


class NewVersioning(Enum):
    """The versioning states that a new bucket can have."""

    ENABLED = "enabled"
    UNVERSIONED = "unversioned"


class ChangedVersioning(Enum):
    """The versioning states that a bucket can be changed to."""

    ENABLED = "enabled"
    SUSPENDED = "suspended"


@app.callback(invoke_without_command=True)
def buckets(context: typer.Context) -> None:
    """List, create, configure and delete buckets. Without a command, list them."""
    if context.invoked_subcommand is None:
        list_buckets(context)


@app.command("list")
def list_buckets(context: typer.Context) -> None:
    """List the buckets.

    \b
    Examples:
      List all buckets:
        lakebed s3 buckets list
    """
    run = invocation(context)
    with open_to_read(run) as store:
        run.output.show(Rows("buckets", BUCKETS, store.buckets()))


@app.command()
def create(
    context: typer.Context,
    name: BucketName,
    versioning: Annotated[
        NewVersioning | None,
        typer.Option(
            metavar="enabled|unversioned",
            help="Whether old versions are kept. Default for a new bucket: default_versioning in "
            "section [s3].",
        ),
    ] = None,
) -> None:
    """Create a bucket. Has no effect if the bucket exists.

    With --versioning, the command fails if the bucket exists with another versioning.

    \b
    Examples:
      Create a bucket:
        lakebed s3 buckets create photos
      Create a bucket without versions:
        lakebed s3 buckets create scratch --versioning unversioned
    """
    from lakebed.seglake.model import Versioning
    from lakebed.seglake.names import check_bucket_name

    run = invocation(context)
    check_bucket_name(name)  # before the store is opened: a mistake must not create a root
    wanted = None
    if versioning is not None:
        is_enabled = versioning is NewVersioning.ENABLED
        wanted = Versioning.ENABLED if is_enabled else Versioning.DISABLED
    with run.place.writing(create=True) as store:
        is_new = all(bucket.name != name for bucket in store.buckets())
        info = store.bucket(name, versioning=wanted).info
    done = "created" if is_new else "exists already"
    run.output.show(
        Item(BUCKET, info),
        Value("created", is_new),
        Text(f"{name}: {done}, versioning is {_versioning_text(info.versioning)}"),
    )


@app.command()
def versioning(
    context: typer.Context,
    name: BucketName,
    state: Annotated[
        ChangedVersioning,
        typer.Argument(
            metavar="enabled|suspended", help="Whether old versions are kept from now on."
        ),
    ],
) -> None:
    """Enable or suspend the versioning of a bucket. Existing versions are kept.

    \b
    Examples:
      Suspend versioning:
        lakebed s3 buckets versioning photos suspended
    """
    from lakebed.seglake.model import Versioning
    from lakebed.seglake.names import check_bucket_name

    run = invocation(context)
    check_bucket_name(name)
    with open_bucket_to_write(run, name) as store:
        info = store.open_bucket(name).set_versioning(Versioning(state.value))
    line = f"{name}: versioning is {_versioning_text(info.versioning)}"
    run.output.show(Item(BUCKET, info), Text(line))


@app.command()
def delete(context: typer.Context, name: BucketName) -> None:
    """Delete a bucket that has no object versions.

    Its delete markers are removed, and its multipart uploads in progress are aborted.

    \b
    Examples:
      Delete a bucket:
        lakebed s3 buckets delete photos
    """
    from lakebed.seglake.errors import BucketNotEmpty
    from lakebed.seglake.names import check_bucket_name

    run = invocation(context)
    check_bucket_name(name)
    with open_bucket_to_write(run, name) as store:
        try:
            store.delete_bucket(name)
        except BucketNotEmpty as error:
            advice = f"remove its objects with lakebed s3 rm {name} --recursive --versions --yes"
            raise BucketNotEmpty(f"{error}; {advice}") from None
    run.output.show(Value("bucket", name), Value("deleted", True), Text(f"{name}: deleted"))


def _versioning_text(versioning: Versioning) -> str:
    """Returns the name that the command line uses for a versioning."""
    return "unversioned" if versioning.value == "disabled" else versioning.value


BUCKETS = (
    Column("bucket", "name", "bucket"),
    Column("versioning", heading="versioning", text=_versioning_text, json=_versioning_text),
    Column("created", "created_ms", "created", moment_ms_text, moment_ms_text),
    Column("created_ms"),
)
BUCKET = tuple(replace(column, heading=None) for column in BUCKETS)
"""The columns of `BUCKETS` without headings, so that they are only in the JSON document."""
