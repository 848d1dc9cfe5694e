"""`lakebed restore`: restores a store from a backup."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Item, Text, Value, counted
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, quiet
from lakebed.cli.vaults import (
    SNAPSHOT,
    AllowHttp,
    Endpoint,
    Region,
    SnapshotId,
    chosen,
    opened_vault,
)

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def restore(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|s3://BUCKET/PREFIX",
            help="Where the backups are kept: a folder, or a prefix in an S3 bucket.",
        ),
    ],
    snapshot: SnapshotId = None,
    salvage: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="If files of the backup are damaged, make a store of the other files; the exit "
            "code is then 65. Default: restore the other files and fail; the store can then be "
            "opened only after a run with --salvage.",
        ),
    ] = False,
    endpoint: Endpoint = "",
    region: Region = "",
    allow_http: AllowHttp = False,
) -> None:
    """Restore a store from a backup into --root, which must be empty or not exist.

    If the command is interrupted, run it again to continue. If there is a newer backup by then, add
    --snapshot with the id of the backup that was being restored.

    \b
    Examples:
      Restore the newest backup:
        lakebed --root /new restore /backups/store
      Restore one particular backup from S3:
        lakebed --root /new restore s3://backups/store --snapshot 20260102T030405678Z-00c0ffee
    """
    from lakebed.kernels.disk import real_disk
    from lakebed.store.backup.restore import restore as restore_store

    run = invocation(context)
    run.local_root().exists()
    with (
        quiet("lakebed"),
        opened_vault(source, endpoint=endpoint, region=region, allow_http=allow_http) as vault,
    ):
        chosen_snapshot = chosen(vault, snapshot)
        with Progress("restore") as progress:
            restored = restore_store(
                vault,
                chosen_snapshot,
                os.path.abspath(run.root),
                disk=real_disk(),
                salvage=salvage,
                progress=lambda done, total: progress.update(done >> 20, total >> 20),
            )
    run.output.show(
        Item(SNAPSHOT, chosen_snapshot),
        Value("root", run.root),
        Value("restored_files", restored.file_count),
        Value("damaged", restored.damaged),
        Text(*(f"damaged in the backup, not restored: {path}" for path in restored.damaged)),
        Text(*(f"stored elsewhere, and needed: {place}" for place in chosen_snapshot.external)),
        Text(
            f"{run.root}: {chosen_snapshot.snapshot_id}, {counted(restored.file_count, 'file')}, "
            f"{restored.byte_count:,} bytes; verify it with lakebed verify"
        ),
    )
    if restored.damaged:
        raise typer.Exit(DAMAGED_EXIT_CODE)
