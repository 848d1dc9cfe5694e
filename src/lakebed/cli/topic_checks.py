"""`lakebed topic verify` and `repair`: finding damage in a topic, and what can be done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.stores import DAMAGED_EXIT_CODE, open_files, open_to_read, quiet
from lakebed.cli.topic_stores import TopicName, open_topic_to_write

if TYPE_CHECKING:
    from lakebed.api.surface import Store
    from lakebed.store.topic_repair import TopicRepair


def verify(context: typer.Context, topic: TopicName) -> None:
    """Check every record of every partition, its indexes and its manifest.

    It only reads, and works beside a writer. The exit code is 65 if anything is torn, corrupt or
    does not fit.

    \b
    lakebed topic verify orders
    """
    from lakebed.cli.topic_tables import verify_document, verify_lines

    run = invocation(context)
    with quiet("lakebed.keratin"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_topic(topic, progress=progress.update)
    run.output.result(verify_document(topic, report), lines=verify_lines(topic, report))
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def repair(
    context: typer.Context,
    topic: TopicName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
) -> None:
    """Cut torn bytes; save what is damaged in the quarantine, leave it out, and tell what is lost.

    Messages that are whole stay, under the same offsets. What is lost goes on record: readers stop
    there until `lakebed damage acknowledge`. A topic.json that is lost or damaged is
    written again, with as many partitions as there are folders and with default settings.

    \b
    lakebed topic repair orders --dry-run
    lakebed topic repair orders
    """
    from lakebed.cli.topic_tables import repair_document, repair_lines

    run = invocation(context)
    with quiet("lakebed.keratin"), Progress("repair") as progress:
        if dry_run:
            report = _foreseen(run, topic, progress)
        else:
            with open_topic_to_write(run, topic) as store:
                report = _repaired(run, store, topic, progress, dry_run=False)
    run.output.result(
        repair_document(topic, report, dry_run=dry_run),
        lines=repair_lines(topic, report, dry_run=dry_run),
    )


def _foreseen(run: Invocation, topic: str, progress: Progress) -> TopicRepair:
    from lakebed.store.topic_repair import preview_topic_repair

    def here() -> TopicRepair:
        with open_files(run) as files:
            return preview_topic_repair(files.disk, files.root, topic, progress=progress.update)

    def there(store: Store) -> TopicRepair:
        with store:
            return _repaired(run, store, topic, progress, dry_run=True)

    return run.place.either(here, there)


def _repaired(
    run: Invocation, store: Store, topic: str, progress: Progress, *, dry_run: bool
) -> TopicRepair:
    report = store.maintenance.repair_topic(topic, dry_run=dry_run, progress=progress.update)
    return report._replace(
        problems=run.place.named(report.problems, store),
        quarantined=run.place.named(report.quarantined, store),
    )
