"""`lakebed topic verify` and `lakebed topic repair`: find and repair damage in a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Text, Value, counted
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_files, open_to_read, quiet
from lakebed.cli.topic_arguments import TopicName, open_topic_to_write

if TYPE_CHECKING:
    from lakebed.api.surface import Store
    from lakebed.store.topic_repair import TopicRepair

TOPIC_REPORT = (
    Column("ok", lambda report: not report.problems),
    Column("partitions"),
    Column("segments"),
    Column("records"),
    Column("problems"),
    Column("lost"),
    Column("notes"),
)
TOPIC_REPAIR = (
    Column("torn_bytes"),
    Column("problems"),
    Column("lost"),
    Column("quarantined"),
)


def verify(context: typer.Context, topic: TopicName) -> None:
    """Verify every record of every partition of a topic, and the indexes and manifests.

    The exit code is 65 if anything is torn, corrupt or inconsistent, or if a recorded loss of the
    topic is not acknowledged. Works while another process writes.

    \b
    Examples:
      Verify a topic:
        lakebed topic verify orders
    """
    from lakebed.store.topic_report import problem_lines

    run = invocation(context)
    with quiet("lakebed.keratin"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_topic(topic, progress=progress.update)
    lines = problem_lines(topic, report)
    if not lines:
        counts = [
            counted(report.partitions, "partition"),
            counted(report.segments, "segment"),
            counted(report.records, "record"),
        ]
        lines.append(f"{topic}: {', '.join(counts)}, all whole")
    run.output.show(
        Value("topic", topic),
        Item(TOPIC_REPORT, report),
        Text(*lines, *(f"note: {note}" for note in report.notes)),
    )
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def repair(
    context: typer.Context,
    topic: TopicName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Report what would be repaired, and change nothing.")
    ] = False,
) -> None:
    """Truncate torn bytes, move damaged bytes to the quarantine folder, and report lost messages.

    Undamaged messages keep their offsets. Losses are recorded, and readers stop at a loss until you
    acknowledge it with lakebed damage acknowledge. If topic.json is lost or damaged, it is written
    again, with default settings and all partitions up to the last partition that has a folder.

    \b
    Examples:
      Show what would be repaired:
        lakebed topic repair orders --dry-run
      Repair a topic:
        lakebed topic repair orders
    """
    run = invocation(context)
    with quiet("lakebed.keratin"), Progress("repair") as progress:
        if dry_run:
            report = _previewed(run, topic, progress)
        else:
            with open_topic_to_write(run, topic) as store:
                report = _repaired(run, store, topic, progress, dry_run=False)
    cut = "would be cut" if dry_run else "cut"
    lines = [f"{topic}: {report.torn_bytes} torn bytes {cut}"] if report.torn_bytes else []
    lines += [f"{topic}: damaged: {problem}" for problem in report.problems]
    lines += [f"{topic}: {lost}" for lost in report.lost]
    lines += [f"{topic}: saved as {path}" for path in report.quarantined]
    run.output.show(
        Value("topic", topic),
        Value("dry_run", dry_run),
        Item(TOPIC_REPAIR, report),
        Text(*lines or [f"{topic}: nothing to repair"]),
    )


def _previewed(run: Invocation, topic: str, progress: Progress) -> TopicRepair:
    from lakebed.store.topic_repair import preview_topic_repair

    def preview_here() -> TopicRepair:
        with open_files(run) as files:
            return preview_topic_repair(files.disk, files.root, topic, progress=progress.update)

    def preview_remotely(store: Store) -> TopicRepair:
        with store:
            return _repaired(run, store, topic, progress, dry_run=True)

    return run.place.open_or_connect(preview_here, preview_remotely)


def _repaired(
    run: Invocation, store: Store, topic: str, progress: Progress, *, dry_run: bool
) -> TopicRepair:
    report = store.maintenance.repair_topic(topic, dry_run=dry_run, progress=progress.update)
    return report._replace(
        problems=run.place.named(report.problems, store),
        quarantined=run.place.named(report.quarantined, store),
    )
