"""`lakebed aof tiers`, `upload`, `evict`, `hydrate` and others: where segments are.

`tiers` only looks: it takes no lock, and beside a writer it tells what is committed. The others
return when what they were asked for is done: here, or by the program that has the store open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.stores import (
    DAMAGED_EXIT_CODE,
    LogName,
    advised,
    open_to_read,
    open_to_write,
    reaching_tier2,
)

if TYPE_CHECKING:
    from lakebed.store.tier_moves import Outcome

_SEGMENT_MAX = (1 << 32) - 1

Segments = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[SEGMENT]...", min=0, max=_SEGMENT_MAX, help="Segments' numbers; else all sealed."
    ),
]


def tiers(context: typer.Context, log: LogName) -> None:
    """Show in which tiers each segment is, what is under way, and what failed.

    \b
    lakebed aof tiers orders
    lakebed --json aof tiers orders
    """
    from lakebed.cli.manifest_logs import require_manifest_log
    from lakebed.cli.tier_tables import LogResidency, tiers_document, tiers_lines
    from lakebed.store.residency import replayed

    run = invocation(context)
    with open_to_read(run) as store:
        manifest = require_manifest_log(store, log)
        address = store.tier2_of(manifest.log)
        residency = LogResidency(manifest, address, replayed(manifest.reader))
    run.output.result(tiers_document(residency), lines=tiers_lines(residency))
    if residency.problems():
        raise typer.Exit(DAMAGED_EXIT_CODE)


def upload(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Compress sealed segments and put them into Tier 2; all, or those given.

    \b
    lakebed aof upload orders
    lakebed aof upload orders 0 1
    """
    _move(invocation(context), log, "uploaded", "upload", segments=segment or None)


def retry_upload(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Upload what could not be uploaded before, once its cause is mended; all, or those given.

    \b
    lakebed aof retry-upload orders
    lakebed aof retry-upload orders 0 1
    """
    _move(invocation(context), log, "uploaded", "retry_upload", segments=segment or None)


def evict(
    context: typer.Context,
    log: LogName,
    segment: Segments = None,
    warm: Annotated[bool, typer.Option("--warm", help="Out of Tier 1 as well.")] = False,
) -> None:
    """Take segments that Tier 2 has off this disk; all, or those given. They stay readable.

    \b
    lakebed aof evict orders
    lakebed aof evict orders 0 1 --warm
    """
    _move(invocation(context), log, "evicted", "evict", segments=segment or None, warm=warm)


def hydrate(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Bring segments back into Tier 0; all, or those given.

    \b
    lakebed aof hydrate orders
    lakebed aof hydrate orders 0 1
    """
    _move(invocation(context), log, "hydrated", "hydrate", segments=segment or None)


def migrate_tier2(
    context: typer.Context,
    log: LogName,
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]",
            help="s3://bucket/prefix, file:///folder, a folder, or tier2 for the root's own; "
            "else where new logs have theirs.",
        ),
    ] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Then delete the objects at the address before.")
    ] = False,
) -> None:
    """Copy the objects of a log to another Tier 2, check them, and use that one from then on.

    Without URL it moves to where new logs have theirs: the store's own object store, unless url
    of section aof_tier2 says otherwise. Run it again if it was cut short; with --delete also later.

    \b
    lakebed aof migrate-tier2 orders
    lakebed aof migrate-tier2 orders s3://bucket/prefix
    lakebed aof migrate-tier2 orders s3://bucket/prefix --delete
    """
    from lakebed.cli.move_tables import migrated_document, migrated_lines

    run = invocation(context)
    with (
        reaching_tier2(log),
        Progress("migrate") as progress,
        open_to_write(run, log) as store,
    ):
        done = store.maintenance.migrate_tier2(
            log, address=url, delete=delete, progress=progress.update
        )
    run.output.result(migrated_document(log, done), lines=migrated_lines(log, done))
    if done.missing:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def repair_objects(run: Invocation, log: str) -> None:
    """`lakebed aof repair LOG --tier2`."""
    from lakebed.cli.move_tables import are_all_mended, repaired_document, repaired_lines

    with reaching_tier2(log), Progress("repair") as progress, open_to_write(run, log) as store:
        outcome = store.maintenance.repair_tier2(log, progress=progress.update)
    _tell(run, log, outcome, repaired_document(log, outcome), repaired_lines(log, outcome))
    if not are_all_mended(outcome):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _move(run: Invocation, log: str, done: str, method: str, **arguments: Any) -> None:
    """`method` is one of `Maintenance`."""
    from lakebed.cli.move_tables import moved_document, moved_lines

    with reaching_tier2(log), Progress(done) as progress, open_to_write(run, log) as store:
        move = getattr(store.maintenance, method)
        outcome = move(log, **arguments, progress=progress.update)
    _tell(run, log, outcome, moved_document(log, outcome, done), moved_lines(log, outcome, done))


def _tell(
    run: Invocation, log: str, outcome: Outcome, document: dict[str, object], lines: list[str]
) -> None:
    """The result, and what went wrong: as an error if nothing else is to be told."""
    errors = [failed.error for failed in outcome.failed]
    errors += [outcome.stopped_by] if outcome.stopped_by is not None else []
    is_error_all = len(errors) == 1 and not outcome.moved and not outcome.repaired
    if not is_error_all:
        run.output.result(document, lines=lines)
    for error in errors[:-1]:
        if not run.output.as_json:  # whose document has them
            run.output.note(str(advised(error, log)))
    if errors:
        raise advised(errors[-1], log)
