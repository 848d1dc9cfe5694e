"""`lakebed s3 verify`: finding damage in the object store."""

from __future__ import annotations

from typing import Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.s3_stores import parse_place
from lakebed.cli.stores import DAMAGED_EXIT_CODE, open_to_read, quiet


def verify(
    context: typer.Context,
    place: Annotated[
        str | None,
        typer.Argument(metavar="[BUCKET[/PREFIX]]", help="Only these objects; else everything."),
    ] = None,
) -> None:
    """Read every chunk, and check manifests, the ends of segments, and the metadata.

    It only reads, marks nothing, and works beside a writer. The exit code is 65 if anything is
    damaged.

    \b
    lakebed s3 verify
    lakebed s3 verify photos/2025/
    """
    from lakebed.base.units import MIB
    from lakebed.cli.s3_tables import verify_document, verify_lines

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
    run.output.result(verify_document(only, report), lines=verify_lines(only, report))
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)
