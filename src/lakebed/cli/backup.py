"""`lakebed backup`: taking, listing, checking and letting go of backups of a whole store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.output import counted, table
from lakebed.cli.progress import Progress
from lakebed.cli.stores import DAMAGED_EXIT_CODE, open_files, quiet
from lakebed.cli.vaults import (
    AllowHttp,
    Endpoint,
    Region,
    SnapshotId,
    chosen,
    opened_vault,
    snapshot_document,
)

if TYPE_CHECKING:
    from lakebed.store.backup.catalogue import Snapshot
    from lakebed.store.backup.vault import Vault

app = typer.Typer(add_completion=False)


@app.command()
def backup(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="DIR|s3://BUCKET/PREFIX", help="Where backups are kept.")
    ],
    list_: Annotated[bool, typer.Option("--list", help="Show the backups that are there.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read one back and check every hash.")
    ] = False,
    snapshot: SnapshotId = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="N", help="Then remove all but the last N, unless there is damage."),
    ] = None,
    endpoint: Endpoint = "",
    region: Region = "",
    allow_http: AllowHttp = False,
) -> None:
    """Back up the whole store, beside whoever writes it; only what is new is copied.

    The exit code is 65 if the store is damaged (the backup is taken all the same, and no older one
    is removed), or a backup is.

    \b
    lakebed backup /backups/store --keep 7
    lakebed backup s3://backups/store --endpoint https://minio.example
    lakebed backup /backups/store --list
    lakebed backup /backups/store --verify
    """
    run = invocation(context)
    if keep is not None and keep < 1:
        raise typer.BadParameter("at least one backup is kept", param_hint="--keep")
    if (list_ or verify) and (keep is not None or (list_ and verify)):
        raise typer.BadParameter("--list, --verify and --keep do not go together")
    if snapshot is not None and not verify:
        raise typer.BadParameter("goes with --verify", param_hint="--snapshot")
    if not list_ and not verify:
        run.local_root()
    with (
        quiet("lakebed"),
        opened_vault(target, endpoint=endpoint, region=region, allow_http=allow_http) as vault,
    ):
        if list_:
            _list(run, vault)
        elif verify:
            _verify(run, vault, snapshot)
        else:
            _take(run, vault, keep)


def _take(run: Invocation, vault: Vault, keep: int | None) -> None:
    from lakebed.store.backup.create import check_apart, create_backup
    from lakebed.store.backup.retention import keep_snapshots

    check_apart(os.fspath(run.require_root()), vault.address)
    with open_files(run) as store, Progress("backup") as progress:
        taken = create_backup(store, vault, progress=lambda done: progress.count(done >> 20, "MiB"))
    found = taken.snapshot
    document = snapshot_document(found) | {
        "copied_parts": taken.put_count,
        "copied_bytes": taken.put_bytes,
    }
    size = f"{found.size:,} bytes, of which {taken.put_bytes:,} were new"
    lines = [f"{found.snapshot_id}: {counted(len(found.files), 'file')}, {size}"]
    lines += [f"kept elsewhere, and not copied: {one}" for one in found.external]
    lines += [f"not a part of the store, and left out: {one}" for one in found.left_out]
    lines += [f"problem: {one}" for one in found.problems]
    if keep is not None and found.problems:
        document["removed"] = []
        lines.append("no older backup was removed: they may have what this one lacks")
    elif keep is not None:
        removed = keep_snapshots(vault, keep)
        document["removed"] = list(removed.snapshot_ids)
        lines += [f"removed {one}" for one in removed.snapshot_ids]
    run.output.result(document, lines=lines)
    if found.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _list(run: Invocation, vault: Vault) -> None:
    from lakebed.base.errors import DataError

    documents: list[dict[str, object]] = []
    rows: list[tuple[str, ...]] = []
    for snapshot_id in vault.snapshot_ids():
        try:
            found = vault.snapshot(snapshot_id)
        except DataError as error:
            documents.append({"snapshot": snapshot_id, "error": str(error)})
            rows.append((snapshot_id, "", "", "", str(error)))
            continue
        documents.append(snapshot_document(found))
        rows.append(_row(found))
    heading = ("backup", "files", "bytes", "program", "")
    run.output.result({"backups": documents}, lines=table(heading, rows) if rows else [])
    if any("error" in one for one in documents):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _row(found: Snapshot) -> tuple[str, ...]:
    problems = counted(len(found.problems), "problem") if found.problems else ""
    return found.snapshot_id, str(len(found.files)), str(found.size), found.program, problems


def _verify(run: Invocation, vault: Vault, snapshot_id: str | None) -> None:
    from lakebed.store.backup.check import check_snapshot

    snapshot = chosen(vault, snapshot_id)
    with Progress("verify") as progress:
        checked = check_snapshot(vault, snapshot, progress=progress.update)
    document = snapshot_document(snapshot) | {
        "ok": not checked.damaged,
        "parts": checked.part_count,
        "damaged": [one._asdict() for one in checked.damaged],
    }
    lines = [f"{one.problem}; needed for {', '.join(one.paths)}" for one in checked.damaged]
    verdict = counted(len(checked.damaged), "part") + " damaged" if checked.damaged else "good"
    lines.append(f"{snapshot.snapshot_id}: {counted(checked.part_count, 'part')}, {verdict}")
    run.output.result(document, lines=lines)
    if checked.damaged:
        raise typer.Exit(DAMAGED_EXIT_CODE)
