"""`lakebed aof verify` and `repair`: finding damage in a log, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.stores import (
    DAMAGED_EXIT_CODE,
    LogName,
    advised,
    open_files,
    open_to_read,
    open_to_write,
    quiet,
    reaching_tier2,
    require_log,
)

if TYPE_CHECKING:
    from lakebed.api.surface import Store
    from lakebed.store.repair import RepairReport
    from lakebed.store.tier_verification import CopyReport


def verify(
    context: typer.Context,
    log: LogName,
    tier2: Annotated[
        bool, typer.Option("--tier2", help="Read all objects in Tier 2 as well.")
    ] = False,
) -> None:
    """Check every checksum of every segment, warm file and archived segment.

    The exit code is 65 if anything is torn, corrupt or lost.

    \b
    lakebed aof verify orders
    lakebed aof verify orders --tier2
    """
    from lakebed.cli.log_tables import verify_document, verify_lines

    run = invocation(context)
    with quiet("lakebed.aof.tiers"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_log(log, tier2=tier2, progress=progress.update)
    lines = verify_lines(log, report, tier2=tier2)
    run.output.result(verify_document(log, report), lines=lines)
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)
    if report.unreached is not None:
        raise advised(report.unreached, log)


def repair(
    context: typer.Context,
    log: LogName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
    tier2: Annotated[
        bool,
        typer.Option("--tier2", help="Look after the objects in Tier 2: make missing ones anew."),
    ] = False,
) -> None:
    """Cut torn bytes, and save what is damaged in the quarantine; damage itself is never cut.

    The exit code is 0 also if damage stays: `verify` tells. With --tier2 only Tier 2 is looked
    after, and the exit code is 65 if an object is lost.

    \b
    lakebed aof repair orders --dry-run
    lakebed aof repair orders
    """
    run = invocation(context)
    if not tier2:
        _repair_segments(run, log, dry_run=dry_run)
    elif dry_run:
        _foresee_objects(run, log)
    else:
        from lakebed.cli.tiers import repair_objects

        repair_objects(run, log)


def _repair_segments(run: Invocation, log: str, *, dry_run: bool) -> None:
    from lakebed.cli.log_tables import repair_lines

    with quiet("lakebed.aof"), Progress("repair") as progress:
        if dry_run:
            report = _foreseen(run, log, progress)
        else:
            with open_to_write(run, log) as store:
                report = _repaired(run, store, log, progress, dry_run=False)
    document = {"log": log, "dry_run": dry_run, **report._asdict()}
    run.output.result(document, lines=repair_lines(log, report, dry_run=dry_run))


def _foreseen(run: Invocation, log: str, progress: Progress) -> RepairReport:
    from lakebed.store.repair import preview_repair

    def here() -> RepairReport:
        with open_files(run) as files:
            return preview_repair(files.disk, files.root, log, progress=progress.update)

    def there(store: Store) -> RepairReport:
        with store:
            return _repaired(run, store, log, progress, dry_run=True)

    with open_to_read(run) as reading:
        require_log(reading, log)
    return run.place.either(here, there)


def _repaired(
    run: Invocation, store: Store, log: str, progress: Progress, *, dry_run: bool
) -> RepairReport:
    report = store.maintenance.repair_log(log, dry_run=dry_run, progress=progress.update)
    return report._replace(
        problems=run.place.named(report.problems, store),
        quarantined=run.place.named(report.quarantined, store),
    )


def _foresee_objects(run: Invocation, log: str) -> None:
    from lakebed.cli.move_tables import foreseen_document, foreseen_lines
    from lakebed.store.logs import require_log
    from lakebed.store.residency import recorded_states
    from lakebed.store.tier_verification import Copies

    found: list[CopyReport] = []
    with (
        reaching_tier2(log),
        open_files(run, "--dry-run with --tier2") as store,
        Progress("repair") as progress,
    ):
        paths = require_log(store.disk, store.root, log)
        copies = Copies(store, paths, recorded_states(store.disk, paths))
        total = copies.count(2)
        for count, copy in enumerate(copies.check(2), start=1):
            found += [copy] if copy.problem is not None else []
            progress.update(count, total)
    run.output.result(foreseen_document(log, found), lines=foreseen_lines(log, found))
    if any(not copy.has_local for copy in found):
        raise typer.Exit(DAMAGED_EXIT_CODE)
