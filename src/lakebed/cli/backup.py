"""`lakebed backup`: creates, lists, verifies and removes backups of a whole store."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Part, Rows, Text, Value, counted, object_of
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_files, quiet
from lakebed.cli.vaults import (
    SNAPSHOT,
    AllowHttp,
    Endpoint,
    Region,
    SnapshotId,
    chosen,
    opened_vault,
)

if TYPE_CHECKING:
    from lakebed.store.backup.catalogue import Snapshot
    from lakebed.store.backup.vault import Vault

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def backup(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="DIR|s3://BUCKET/PREFIX",
            help="Where the backups are kept: a folder, or a prefix in an S3 bucket.",
        ),
    ],
    list_: Annotated[
        bool, typer.Option("--list", help="List the existing backups. Makes no backup.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Verify all data of an existing backup. Makes no backup."),
    ] = False,
    snapshot: SnapshotId = None,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="After the backup, delete all but the newest N backups, unless the backup found "
            "damage in the store. Default: delete none.",
        ),
    ] = None,
    endpoint: Endpoint = "",
    region: Region = "",
    allow_http: AllowHttp = False,
) -> None:
    """Back up the whole store incrementally. Works while another process writes.

    If the Tier 2 of a log is outside the store, such as s3://..., its objects are not copied: the
    command lists these places, and a restored store needs them.

    The exit code is 65 if damage in the store is found; the backup is still made, but --keep then
    removes no older backup. With --list or --verify no backup is made: existing backups are listed,
    or one backup is verified. The exit code is then 65 if a listed backup cannot be read, or the
    verified backup is damaged.

    \b
    Examples:
      Back up to a folder, and keep the last seven backups:
        lakebed backup /backups/store --keep 7
      Back up to an S3 store:
        lakebed backup s3://backups/store --endpoint https://minio.example
      List the backups:
        lakebed backup /backups/store --list
      Verify the newest backup:
        lakebed backup /backups/store --verify
    """
    run = invocation(context)
    if keep is not None and keep < 1:
        raise typer.BadParameter(
            "must be at least 1: the new backup is always kept", param_hint="--keep"
        )
    if (list_ or verify) and (keep is not None or (list_ and verify)):
        raise typer.BadParameter("--list, --verify and --keep cannot be combined")
    if snapshot is not None and not verify:
        raise typer.BadParameter("can only be used with --verify", param_hint="--snapshot")
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
    snapshot = taken.snapshot
    size = f"{snapshot.size:,} bytes, of which {taken.put_bytes:,} were new"
    parts: list[Part] = [
        Item(SNAPSHOT, snapshot),
        Value("copied_parts", taken.put_count),
        Value("copied_bytes", taken.put_bytes),
        Text(f"{snapshot.snapshot_id}: {counted(len(snapshot.files), 'file')}, {size}"),
        Text(*(f"stored elsewhere, not copied: {place}" for place in snapshot.external)),
        Text(*(f"not part of the store, not copied: {path}" for path in snapshot.left_out)),
        Text(*(f"problem: {problem}" for problem in snapshot.problems)),
    ]
    if keep is not None and snapshot.problems:
        parts.append(Value("removed", []))
        parts.append(Text("no older backups were removed, because they may have the missing data"))
    elif keep is not None:
        removed = keep_snapshots(vault, keep).snapshot_ids
        parts += [Value("removed", removed), Text(*(f"removed {each}" for each in removed))]
    run.output.show(*parts)
    if snapshot.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _list(run: Invocation, vault: Vault) -> None:
    from lakebed.base.errors import DataError

    backups: list[Snapshot | UnreadableBackup] = []
    for snapshot_id in vault.snapshot_ids():
        try:
            backups.append(vault.snapshot(snapshot_id))
        except DataError as error:
            backups.append(UnreadableBackup(snapshot_id, str(error)))
    run.output.show(
        Value("backups", [_backup_object(each) for each in backups]),
        Rows("", BACKUPS, backups, hides_empty=True),
    )
    if any(isinstance(each, UnreadableBackup) for each in backups):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _verify(run: Invocation, vault: Vault, snapshot_id: str | None) -> None:
    from lakebed.store.backup.check import check_snapshot

    snapshot = chosen(vault, snapshot_id)
    with Progress("verify") as progress:
        checked = check_snapshot(vault, snapshot, progress=progress.update)
    verdict = counted(len(checked.damaged), "part") + " damaged" if checked.damaged else "good"
    run.output.show(
        Item(SNAPSHOT, snapshot),
        Value("ok", not checked.damaged),
        Value("parts", checked.part_count),
        Value("damaged", checked.damaged),
        Text(*(f"{part.problem}; needed for {', '.join(part.paths)}" for part in checked.damaged)),
        Text(f"{snapshot.snapshot_id}: {counted(checked.part_count, 'part')}, {verdict}"),
    )
    if checked.damaged:
        raise typer.Exit(DAMAGED_EXIT_CODE)


class UnreadableBackup(NamedTuple):
    """A backup that cannot be read: its catalogue is damaged, or another version wrote it."""

    snapshot_id: str
    error: str


def _backup_object(backup: Snapshot | UnreadableBackup) -> dict[str, object]:
    if isinstance(backup, UnreadableBackup):
        return {"snapshot": backup.snapshot_id, "error": backup.error}
    return object_of(SNAPSHOT, backup)


def _readable(
    cell: Callable[[Snapshot], object],
) -> Callable[[Snapshot | UnreadableBackup], object]:
    """Returns a function that formats a cell like `cell`, but returns an empty text for an
    unreadable backup."""
    return lambda backup: "" if isinstance(backup, UnreadableBackup) else cell(backup)


def _remark(backup: Snapshot | UnreadableBackup) -> str:
    if isinstance(backup, UnreadableBackup):
        return backup.error
    return counted(len(backup.problems), "problem") if backup.problems else ""


BACKUPS = (
    Column("", "snapshot_id", "backup"),
    Column("", _readable(lambda snapshot: len(snapshot.files)), "files"),
    Column("", _readable(lambda snapshot: snapshot.size), "bytes"),
    Column("", _readable(lambda snapshot: snapshot.program), "program"),
    Column("", _remark, ""),
)
"""The columns of the table of backups. `_backup_object` makes the JSON objects."""
