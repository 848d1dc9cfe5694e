"""`lakebed aof tiers`, `upload`, `evict`, `hydrate` and others: where segments are.

`tiers` only looks: it takes no lock, and beside a writer it tells what is committed. The others
return when what they were asked for is done: here, or by the program that has the store open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

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
    from collections.abc import Callable, Mapping

    from lakebed.cli.writers import Writer
    from lakebed.store.tier_moves import Outcome, TierMoves

_SEGMENT_MAX = (1 << 32) - 1

Segments = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="[SEGMENT]...", min=0, max=_SEGMENT_MAX, help="Segments' numbers; else all sealed."
    ),
]


@dataclass(frozen=True)
class Work:
    """What is done to segments, and how the program that has the store open is asked to do it."""

    kind: str
    move: Callable[[TierMoves], Outcome]
    segments: list[int] | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)

    def done_by(self, store: Writer, log: str, progress: Progress) -> Outcome:
        from lakebed.cli.writers import ask
        from lakebed.store.store import Store
        from lakebed.store.tier_moves import Outcome, TierMoves

        if isinstance(store, Store):
            return self.move(TierMoves(store, log, progress=progress.update))
        arguments = {"log": log, **self.arguments}
        if self.segments:
            arguments["segments"] = self.segments
        return ask(store, self.kind, arguments, report=Outcome, progress=progress)


def tiers(context: typer.Context, log: LogName) -> None:
    """Show in which tiers each segment is, what is under way, and what failed.

    \b
    lakebed aof tiers orders
    lakebed --json aof tiers orders
    """
    from lakebed.cli.tier_tables import LogResidency, tiers_document, tiers_lines
    from lakebed.store.manifest_logs import find_manifest_log
    from lakebed.store.residency import replayed, tier2_address, tier2_place

    run = invocation(context)
    with open_to_read(run) as store:
        found = find_manifest_log(store.disk, store.root, log)
        address = tier2_address(store.disk, found.paths, default=store.tiers.address)
        place = tier2_place(store.root, address)
        residency = LogResidency(found, place, replayed(found.reader))
    run.output.result(tiers_document(residency), lines=tiers_lines(residency))
    if residency.problems():
        raise typer.Exit(DAMAGED_EXIT_CODE)


def upload(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Compress sealed segments and put them into Tier 2; all, or those given.

    \b
    lakebed aof upload orders
    lakebed aof upload orders 0 1
    """
    work = Work("aof-upload", lambda moves: moves.upload(segment or None), segment)
    _move(invocation(context), log, "uploaded", work)


def retry_upload(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Upload what could not be uploaded before, once its cause is mended; all, or those given.

    \b
    lakebed aof retry-upload orders
    lakebed aof retry-upload orders 0 1
    """
    work = Work("aof-retry-upload", lambda moves: moves.retry_upload(segment or None), segment)
    _move(invocation(context), log, "uploaded", work)


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
    move = lambda moves: moves.evict(segment or None, warm=warm)  # noqa: E731
    work = Work("aof-evict", move, segment, {"warm": warm})
    _move(invocation(context), log, "evicted", work)


def hydrate(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Bring segments back into Tier 0; all, or those given.

    \b
    lakebed aof hydrate orders
    lakebed aof hydrate orders 0 1
    """
    work = Work("aof-hydrate", lambda moves: moves.hydrate(segment or None), segment)
    _move(invocation(context), log, "hydrated", work)


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
    from lakebed.aof.tiers.migration import Migrated
    from lakebed.cli.move_tables import migrated_document, migrated_lines
    from lakebed.cli.writers import ask
    from lakebed.store.store import Store

    run = invocation(context)
    with (
        reaching_tier2(log),
        Progress("migrate") as progress,
        open_to_write(run, log) as store,
    ):
        if isinstance(store, Store):
            done = store.migrate_tier2(log, url, delete=delete, progress=progress.update)
        else:
            arguments = {"log": log, "address": url, "delete": delete}
            done = ask(store, "aof-migrate-tier2", arguments, report=Migrated, progress=progress)
    run.output.result(migrated_document(log, done), lines=migrated_lines(log, done))
    if done.missing:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def repair_objects(run: Invocation, log: str) -> None:
    """`lakebed aof repair LOG --tier2`."""
    from lakebed.cli.move_tables import are_all_mended, repaired_document, repaired_lines

    work = Work("aof-repair-tier2", lambda moves: moves.repair())
    with reaching_tier2(log), Progress("repair") as progress, open_to_write(run, log) as store:
        outcome = work.done_by(store, log, progress)
    _tell(run, log, outcome, repaired_document(log, outcome), repaired_lines(log, outcome))
    if not are_all_mended(outcome):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _move(run: Invocation, log: str, done: str, work: Work) -> None:
    from lakebed.cli.move_tables import moved_document, moved_lines

    with reaching_tier2(log), Progress(done) as progress, open_to_write(run, log) as store:
        outcome = work.done_by(store, log, progress)
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
