"""`lakebed verify`: finds damage anywhere in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.report import Part, Text, Value, object_of
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, advised, open_to_read, quiet

if TYPE_CHECKING:
    from lakebed.store.damage_marks import MarkReport
    from lakebed.store.store_check import StoreReport

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def verify(
    context: typer.Context,
    tier2: Annotated[
        bool,
        typer.Option(
            "--tier2/--no-tier2",
            help="Whether to verify the objects of logs in Tier 2 too. Default: yes.",
        ),
    ] = True,
    mark: Annotated[
        bool,
        typer.Option(
            "--mark",
            help="Mark damaged objects in the store, and remove marks from undamaged objects.",
        ),
    ] = False,
) -> None:
    """Verify the whole store: logs in all tiers, topics, groups, objects and access keys.

    Reads the data and compares it with its checksums. The exit code is 65 if anything is torn,
    corrupt or missing, if a recorded loss is not acknowledged, or if a part of the store other than
    Tier 2 could not be checked. Otherwise it is 75 if Tier 2 is not available, 77 if Tier 2 refuses
    access, and with --mark also not 0 if a mark could not be changed. Works while another process
    writes. Changes nothing, unless --mark is given.

    \b
    Examples:
      Verify the whole store:
        lakebed verify
      Verify it without Tier 2:
        lakebed verify --no-tier2
    """
    from lakebed.base.errors import LakebedError
    from lakebed.store.damage_marks import MarkReport
    from lakebed.store.store_check_lines import mark_lines, report_lines

    run = invocation(context)
    with quiet("lakebed"), open_to_read(run) as store, Progress("verify") as progress:
        report = store.maintenance.verify_store(tier2=tier2, progress=progress.update)
    parts: list[Part] = [Text(*report_lines(report))]
    marks, failure = MarkReport(), None
    if mark:
        try:
            marks = _mark(run, report)
            parts = [Text(*mark_lines(marks)), *parts, Value("marked", marks.marked)]
        except LakebedError as error:  # the findings are reported first
            failure = error
            parts.append(Value("mark_failure", str(failure)))
    run.output.show(*_parts(report), *parts)
    if failure is not None:
        run.output.note(f"damaged objects were not marked: {failure}")
    if report.problem_count or report.unchecked or marks.failed:
        raise typer.Exit(DAMAGED_EXIT_CODE)
    for log in report.logs:
        if log.unreached is not None:
            raise advised(log.unreached, log.name)
    if failure is not None:
        raise typer.Exit(failure.exit_code)


def _mark(run: Invocation, report: StoreReport) -> MarkReport:
    from lakebed.store.damage_marks import MarkReport, versions_to_mark

    versions = versions_to_mark(report.objects)
    if not versions:
        return MarkReport()
    with quiet("lakebed"), Progress("mark") as progress, run.place.writing() as store:
        return store.maintenance.mark_objects(versions, progress=progress.update)


def _parts(report: StoreReport) -> list[Part]:
    """Returns the report as parts of the JSON document."""
    from lakebed.cli.aof_checks import LOG_REPORT
    from lakebed.cli.manifest import MANIFEST_REPORT
    from lakebed.cli.s3 import OBJECTS_REPORT
    from lakebed.cli.topic_checks import TOPIC_REPORT

    logs = [
        {
            "log": log.name,
            **object_of(LOG_REPORT, log.report),
            "manifest": log.manifest and object_of(MANIFEST_REPORT, log.manifest),
            "unreached": None if log.unreached is None else str(log.unreached),
        }
        for log in report.logs
    ]
    topics = [
        {"topic": topic.name, **object_of(TOPIC_REPORT, topic.report)} for topic in report.topics
    ]
    groups = report.groups
    objects = object_of(OBJECTS_REPORT, report.objects)
    return [
        Value("ok", report.is_good),
        Value("logs", logs),
        Value("topics", topics),
        Value("deleted_topics", report.gone),
        Value(
            "groups",
            {
                "groups": groups.groups,
                "partitions": groups.partitions,
                "events": groups.events,
                "problems": groups.problems,
                "notes": groups.notes,
                "ok": not groups.problems,
            },
        ),
        Value("objects", {"bucket": None, "prefix": None, **objects}),
        Value("unchecked", report.unchecked),
        Value("damage", report.damage),
    ]
