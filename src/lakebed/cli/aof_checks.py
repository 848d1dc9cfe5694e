"""`lakebed aof verify` and `lakebed aof repair`: find and repair damage in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Text, Value, counted, objects
from lakebed.cli.store_access import (
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
    from lakebed.store.log_check import LogReport
    from lakebed.store.repair import RepairReport
    from lakebed.store.tier_verification import CopyReport

LOG_REPORT = (
    Column("ok", lambda report: not report.problems and report.unreached is None),
    Column("segments"),
    Column("records"),
    Column("warm_files"),
    Column("objects"),
    Column("archived"),
    Column("unread"),
    Column("problems"),
)
REPAIR = (Column("torn_bytes"), Column("problems"), Column("quarantined"))


def verify(
    context: typer.Context,
    log: LogName,
    tier2: Annotated[
        bool, typer.Option("--tier2", help="Also verify the objects of the log in Tier 2.")
    ] = False,
) -> None:
    """Verify all segments of a log on the local disk, in Tiers 0 and 1, with their checksums.

    Segments that retention moved to the folder archive/ are verified too. Objects in Tier 2 are
    verified only with --tier2.

    The exit code is 65 if anything is torn, corrupt or lost. Otherwise, with --tier2, it is 75 if
    Tier 2 is not available, and 77 if it refuses access. Works while another process writes.

    \b
    Examples:
      Verify the files of a log:
        lakebed aof verify orders
      Verify its objects in Tier 2 too:
        lakebed aof verify orders --tier2
    """
    run = invocation(context)
    with quiet("lakebed.aof.tiers"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_log(log, tier2=tier2, progress=progress.update)
    run.output.show(
        Value("log", log),
        Item(LOG_REPORT, report),
        Text(*_findings(log, report, tier2=tier2)),
    )
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)
    if report.unreached is not None:
        raise advised(report.unreached, log)


def repair(
    context: typer.Context,
    log: LogName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would be repaired, and change nothing.")
    ] = False,
    tier2: Annotated[
        bool,
        typer.Option(
            "--tier2",
            help="Repair only Tier 2: if an object is missing, or its size or recorded checksum is "
            "wrong, upload it again from a local copy. Does not read the content of objects.",
        ),
    ] = False,
) -> None:
    """Truncate torn bytes at the end of a log, and copy damaged bytes to the quarantine folder.

    Damaged records stay in the log, and lakebed aof verify keeps reporting them; the exit code of
    repair is 0 all the same. With --tier2 only the objects in Tier 2 are repaired; the exit code is
    65 if an object is missing or wrong and there is no local copy of its segment.

    \b
    Examples:
      Show what would be repaired:
        lakebed aof repair orders --dry-run
      Repair a log:
        lakebed aof repair orders
      Upload missing objects again:
        lakebed aof repair orders --tier2
    """
    run = invocation(context)
    if not tier2:
        _repair_segments(run, log, dry_run=dry_run)
    elif dry_run:
        _preview_objects(run, log)
    else:
        from lakebed.cli.aof_tiers import repair_objects

        repair_objects(run, log)


def _repair_segments(run: Invocation, log: str, *, dry_run: bool) -> None:
    with quiet("lakebed.aof"), Progress("repair") as progress:
        if dry_run:
            report = _previewed(run, log, progress)
        else:
            with open_to_write(run, log) as store:
                report = _repaired(run, store, log, progress, dry_run=False)
    cut = "would be cut" if dry_run else "cut"
    lines = [f"{log}: {report.torn_bytes} torn bytes {cut}"] if report.torn_bytes else []
    lines += [f"{log}: damaged: {problem}" for problem in report.problems]
    lines += [f"{log}: saved as {path}" for path in report.quarantined]
    run.output.show(
        Value("log", log),
        Value("dry_run", dry_run),
        Item(REPAIR, report),
        Text(*lines or [f"{log}: nothing to repair"]),
    )


def _previewed(run: Invocation, log: str, progress: Progress) -> RepairReport:
    from lakebed.store.repair import preview_repair

    def preview_here() -> RepairReport:
        with open_files(run) as files:
            return preview_repair(files.disk, files.root, log, progress=progress.update)

    def preview_remotely(store: Store) -> RepairReport:
        with store:
            return _repaired(run, store, log, progress, dry_run=True)

    with open_to_read(run) as reading:
        require_log(reading, log)
    return run.place.open_or_connect(preview_here, preview_remotely)


def _repaired(
    run: Invocation, store: Store, log: str, progress: Progress, *, dry_run: bool
) -> RepairReport:
    report = store.maintenance.repair_log(log, dry_run=dry_run, progress=progress.update)
    return report._replace(
        problems=run.place.named(report.problems, store),
        quarantined=run.place.named(report.quarantined, store),
    )


def _preview_objects(run: Invocation, log: str) -> None:
    from lakebed.store.logs import require_log
    from lakebed.store.residency import recorded_states
    from lakebed.store.tier_verification import Copies

    damaged: list[CopyReport] = []
    with (
        reaching_tier2(log),
        open_files(run, "--dry-run with --tier2") as store,
        Progress("repair") as progress,
    ):
        paths = require_log(store.disk, store.root, log)
        copies = Copies(store, paths, recorded_states(store.disk, paths))
        total = copies.count(2)
        for count, copy in enumerate(copies.check(2), start=1):
            damaged += [copy] if copy.problem is not None else []
            progress.update(count, total)
    lines = [
        f"{log}: segment {copy.segment_id}: {_planned_outcome(copy)}: {copy.path}"
        for copy in damaged
    ]
    run.output.show(
        Value("log", log),
        Value("dry_run", True),
        Value("repaired", objects(_PLANNED, damaged)),
        Value("failed", []),
        Text(*lines or [f"{log}: nothing to repair in Tier 2"]),
    )
    if any(not copy.has_local for copy in damaged):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _planned_outcome(copy: CopyReport) -> str:
    from lakebed.aof.tiers.segment_tiering import RepairOutcome

    return "would be uploaded again" if copy.has_local else RepairOutcome.LOST.value


_PLANNED = (
    Column("segment_id"),
    Column("object_key", "key"),
    Column("outcome", _planned_outcome),
)


def _findings(log: str, report: LogReport, *, tier2: bool) -> list[str]:
    lines = [str(problem) for problem in report.problems]
    if not lines:
        counts = [counted(report.segments, "segment"), counted(report.records, "record")]
        counts += [counted(report.warm_files, "warm file")] if report.warm_files else []
        counts += [counted(report.objects, "object")] if report.objects else []
        counts += [counted(report.archived, "archived segment")] if report.archived else []
        verdict = "all whole" if report.unreached is None else "whole as far as they were read"
        lines.append(f"{log}: {', '.join(counts)}, {verdict}")
    if report.unread and not tier2:
        count = counted(len(report.unread), "segment")
        lines.append(f"{log}: not read: {count} that only Tier 2 has (--tier2 reads them)")
    return lines
