"""`lakebed s3 verify`: finding damage in the object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.s3_stores import parse_place
from lakebed.cli.stores import DAMAGED_EXIT_CODE, open_to_read, quiet

if TYPE_CHECKING:
    from lakebed.seglake.verification_report import Report


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
    from lakebed.seglake.lake_check import verify as verify_lake

    run = invocation(context)
    only = None if place is None else parse_place(place)
    with quiet("lakebed.seglake"), open_to_read(run) as store, Progress("verify") as progress:

        def tell(report: Report) -> None:
            progress.count(report.bytes // MIB, "MiB")

        report = verify_lake(
            store.lake,
            runner=store.runner,
            bucket=None if only is None else only.bucket,
            prefix="" if only is None else only.key,
            progress=tell,
        )
    run.output.result(verify_document(only, report), lines=verify_lines(only, report))
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)
