"""`lakebed verify`: finding damage anywhere in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.stores import DAMAGED_EXIT_CODE, advised, open_to_read, quiet

if TYPE_CHECKING:
    from lakebed.store.damage_marks import MarkReport
    from lakebed.store.store_check import StoreReport

app = typer.Typer(add_completion=False)


@app.command()
def verify(
    context: typer.Context,
    tier2: Annotated[
        bool, typer.Option("--tier2/--no-tier2", help="Read all objects of logs in Tier 2 as well.")
    ] = True,
    mark: Annotated[
        bool,
        typer.Option(
            "--mark", help="Mark objects that have lost bytes as damaged, and clear wrong marks."
        ),
    ] = False,
) -> None:
    """Check every checksum: of logs in all tiers, topics, groups, objects, and the key of secrets.

    It works beside a writer, and only reads; --mark has the writer mark damaged objects. The exit
    code is 65 if anything is torn, corrupt or lost.

    \b
    lakebed verify
    lakebed verify --no-tier2
    """
    from lakebed.base.errors import LakebedError
    from lakebed.store.store_check_lines import mark_lines, report_lines

    run = invocation(context)
    with quiet("lakebed"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_store(tier2=tier2, progress=progress.update)
    document, lines, failure = _document(report), report_lines(report), None
    if mark:
        try:
            marks = _mark(run, report)
            document["marked"] = [one._asdict() for one in marks.marked]
            lines = [*mark_lines(marks), *lines]
        except LakebedError as error:  # what was found is told first
            failure = document["mark_failure"] = str(error)
    run.output.result(document, lines=lines)
    if failure is not None:
        run.output.note(f"damaged objects were not marked: {failure}")
    if report.problem_count or report.unchecked:
        raise typer.Exit(DAMAGED_EXIT_CODE)
    for log in report.logs:
        if log.unreached is not None:
            raise advised(log.unreached, log.name)


def _mark(run: Invocation, report: StoreReport) -> MarkReport:
    from lakebed.store.damage_marks import MarkReport, versions_to_mark

    versions = versions_to_mark(report.objects)
    if not versions:
        return MarkReport()
    with quiet("lakebed"), Progress("mark") as progress, run.place.writing() as store:
        return store.maintenance.mark_objects(versions, progress=progress.update)


def _document(report: StoreReport) -> dict[str, object]:
    from dataclasses import asdict

    from lakebed.cli import log_tables, manifest_tables, s3_tables, topic_tables

    return {
        "ok": report.is_good,
        "logs": [
            {
                **log_tables.verify_document(log.name, log.report),
                "manifest": None
                if log.manifest is None
                else manifest_tables.report_document(log.manifest),
                "unreached": None if log.unreached is None else str(log.unreached),
            }
            for log in report.logs
        ],
        "topics": [
            topic_tables.verify_document(topic.name, topic.report) for topic in report.topics
        ],
        "deleted_topics": list(report.gone),
        "groups": {
            **report.groups._asdict(),
            "ok": not report.groups.problems,
            "problems": [
                {**problem._asdict(), "verdict": problem.verdict.value}
                for problem in report.groups.problems
            ],
        },
        "objects": s3_tables.verify_document(None, report.objects),
        "unchecked": [one._asdict() for one in report.unchecked],
        "damage": [asdict(record) for record in report.damage],
    }
