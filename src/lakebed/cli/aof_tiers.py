"""`lakebed aof tiers`, `upload`, `evict`, `hydrate` and others: show and move segments between
tiers.

`tiers` takes no lock and shows what is committed. The other commands do the work in this process,
or in the process that has the store open, and return when the work is done.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.manifest_logs import DAMAGE_MARK, MANIFEST_LOG, require_manifest_log
from lakebed.cli.progress import Progress
from lakebed.cli.report import (
    Column,
    Item,
    Part,
    Rows,
    Text,
    Value,
    cell_text,
    counted,
    objects,
)
from lakebed.cli.store_access import (
    DAMAGED_EXIT_CODE,
    LogName,
    advised,
    open_to_read,
    open_to_write,
    reaching_tier2,
)
from lakebed.cli.values import size_text, tiers_text

if TYPE_CHECKING:
    from lakebed.aof.manifest.state import SegmentState
    from lakebed.api.read_surface import ReadableManifestLog
    from lakebed.store.tier_moves import Moved, Outcome

_SEGMENT_MAX = (1 << 32) - 1


def _segments_argument(default: str) -> Any:
    return typer.Argument(
        metavar="[SEGMENT]...",
        min=0,
        max=_SEGMENT_MAX,
        help=f"The numbers of the segments. Default: {default}.",
    )


Segments = Annotated[list[int] | None, _segments_argument("all sealed segments")]
FailedSegments = Annotated[list[int] | None, _segments_argument("all segments whose upload failed")]


def tiers(context: typer.Context, log: LogName) -> None:
    """Show in which tiers each segment of a log is, and its pending work and failures.

    \b
    Examples:
      Show the tiers of a log:
        lakebed aof tiers orders
      Print them as JSON:
        lakebed --json aof tiers orders
    """
    from lakebed.store.residency import replayed

    run = invocation(context)
    with open_to_read(run) as store:
        manifest = require_manifest_log(store, log)
        address = store.tier2_of(manifest.log)
        index = replayed(manifest.reader)
    states = list(index.index.segments())
    problems = [*([] if manifest.damage is None else [manifest.damage]), *index.problems]
    deletes = list(index.index.pending_deletes)
    totals = _tier_totals(states)
    run.output.show(
        Item(MANIFEST_LOG, manifest),
        Value("tier2", address),
        Text(f"{manifest.log}: stream {manifest.stream}, Tier 2 is {address}", ""),
        Rows("segments", SEGMENTS, states),
        Text(
            "",
            *(
                f"tier {tier}: {counted(total.segments, 'segment')}, {size_text(total.bytes)}"
                for tier, total in totals.items()
            ),
        ),
        Value("tiers", {f"tier{tier}": total for tier, total in totals.items()}),
        Value("pending_deletes", deletes),
        Value("problems", problems),
        Text(*(f"object to delete: {key}" for key in deletes)),
        Text(*_advice(manifest, states)),
        Text(*(f"{DAMAGE_MARK} {problem}" for problem in problems)),
    )
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def upload(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Compress sealed segments and upload them to Tier 2.

    \b
    Examples:
      Upload all sealed segments:
        lakebed aof upload orders
      Upload two segments:
        lakebed aof upload orders 0 1
    """
    _move(invocation(context), log, "uploaded", "upload", segments=segment or None)


def retry_upload(context: typer.Context, log: LogName, segment: FailedSegments = None) -> None:
    """Retry failed uploads of segments to Tier 2, after you have fixed the cause.

    \b
    Examples:
      Retry all failed uploads:
        lakebed aof retry-upload orders
      Retry two segments:
        lakebed aof retry-upload orders 0 1
    """
    _move(invocation(context), log, "uploaded", "retry_upload", segments=segment or None)


def evict(
    context: typer.Context,
    log: LogName,
    segment: Segments = None,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Remove the segments from Tier 1 (compressed files on the local disk) too.",
        ),
    ] = False,
) -> None:
    """Remove segments from Tier 0 (uncompressed local files) if they are in Tier 2.

    Evicted segments stay readable. With --warm they are removed from Tier 1 (compressed local
    files) too.

    \b
    Examples:
      Evict all uploaded segments:
        lakebed aof evict orders
      Evict two segments, warm files included:
        lakebed aof evict orders 0 1 --warm
    """
    _move(invocation(context), log, "evicted", "evict", segments=segment or None, warm=warm)


def hydrate(context: typer.Context, log: LogName, segment: Segments = None) -> None:
    """Copy segments from Tier 1 or 2 back to Tier 0 (uncompressed local files).

    \b
    Examples:
      Hydrate all segments:
        lakebed aof hydrate orders
      Hydrate two segments:
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
            help="The new Tier 2: s3://bucket/prefix, file:///folder, the absolute path of a "
            "folder, tier2 for the folder tier2 in the root, or store://lakebed-tier2 for the "
            "store's own object store. Default: the Tier 2 of new logs.",
        ),
    ] = None,
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="After the migration, delete the log's objects in the old Tier 2. Default: keep "
            "them.",
        ),
    ] = False,
) -> None:
    """Copy the objects of a log to another Tier 2, verify the copies, and use the new Tier 2.

    By default the log moves to the Tier 2 of new logs: the setting url of section [aof_tier2], or
    else the store's own object store. If the command is interrupted, run it again with the same
    URL. Without --delete the old objects stay; to delete them later, run the command again with the
    same URL and --delete. No process may have the log open.

    The exit code is 65 if objects that the log needs are missing.

    \b
    Examples:
      Move a log to the Tier 2 of new logs:
        lakebed aof migrate-tier2 orders
      Move it to a bucket:
        lakebed aof migrate-tier2 orders s3://bucket/prefix
      Move it, and delete the old objects:
        lakebed aof migrate-tier2 orders s3://bucket/prefix --delete
    """
    run = invocation(context)
    with (
        reaching_tier2(log),
        Progress("migrate") as progress,
        open_to_write(run, log) as store,
    ):
        report = store.maintenance.migrate_tier2(
            log, address=url, delete=delete, progress=progress.update
        )
    lines = [f"{log}: {key}: missing" for key in report.missing]
    line = f"{counted(report.copied_count, 'object')} copied, {size_text(report.copied_bytes)}"
    line += f", {report.present_count} already there" if report.present_count else ""
    line += f"; Tier 2 is {report.after}"
    if report.deleted_count:
        line += f"; {report.deleted_count} deleted from the old address"
    lines.append(f"{log}: {line}")
    if report.left_at:
        lines.append(f"{log}: objects are left at {report.left_at}; delete them with --delete")
    run.output.show(Value("log", log), Item(MIGRATION, report), Text(*lines))
    if report.missing:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def repair_objects(run: Invocation, log: str) -> None:
    """Runs `lakebed aof repair LOG --tier2`: uploads missing and wrong objects again."""
    from lakebed.aof.tiers.segment_tiering import RepairOutcome

    with reaching_tier2(log), Progress("repair") as progress, open_to_write(run, log) as store:
        outcome = store.maintenance.repair_tier2(log, progress=progress.update)
    lines = [
        f"{log}: segment {repaired.segment_id}: {repaired.outcome.value}: {repaired.key}"
        for repaired in outcome.repaired
    ]
    _show_outcome(
        run,
        log,
        outcome,
        Value("log", log),
        Value("dry_run", False),
        Value("repaired", objects(REPAIRED, outcome.repaired)),
        Value("failed", objects(FAILED, outcome.failed)),
        Text(*lines or [f"{log}: nothing to repair in Tier 2"]),
    )
    if any(repaired.outcome is RepairOutcome.LOST for repaired in outcome.repaired):
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _move(run: Invocation, log: str, done: str, method: str, **arguments: Any) -> None:
    """Calls the method of `Maintenance` with this name, which moves segments, and shows the
    outcome. `done` is the word for the move in the report, for example `uploaded`."""
    with reaching_tier2(log), Progress(done) as progress, open_to_write(run, log) as store:
        move = getattr(store.maintenance, method)
        outcome: Outcome = move(log, **arguments, progress=progress.update)
    counts = Counter(skipped.why for skipped in outcome.skipped)
    passed = ", ".join(f"{count} {why}" for why, count in counts.items())
    total = f"{counted(len(outcome.moved), 'segment')} {done}"
    total += f", {size_text(outcome.bytes)}" if outcome.moved else ""
    _show_outcome(
        run,
        log,
        outcome,
        Value("log", log),
        Value("done", done),
        Value("segments", objects(MOVED, outcome.moved)),
        Value("bytes", outcome.bytes),
        Value("skipped", outcome.skipped),
        Value("failed", objects(FAILED, outcome.failed)),
        Text(*(_moved_line(moved, done) for moved in outcome.moved)),
        Text(f"{log}: {total}{f'; skipped: {passed}' if passed else ''}"),
    )


def _show_outcome(run: Invocation, log: str, outcome: Outcome, *parts: Part) -> None:
    """Shows the report, prints all errors but the last as notes, and raises the last error.

    If nothing was done and there is only one error, raises it without a report.
    """
    errors = [failed.error for failed in outcome.failed]
    errors += [outcome.stopped_by] if outcome.stopped_by is not None else []
    is_error_all = len(errors) == 1 and not outcome.moved and not outcome.repaired
    if not is_error_all:
        run.output.show(*parts)
    for error in errors[:-1]:
        if not run.output.as_json:  # the JSON document has these errors
            run.output.note(str(advised(error, log)))
    if errors:
        raise advised(errors[-1], log)


def _moved_line(moved: Moved, done: str) -> str:
    after = moved.after
    size = f"{moved.bytes} bytes"
    if done == "uploaded":
        size = f"{after.durable_bytes} bytes as {moved.bytes}"
    return f"segment {after.segment_id}: {done}, {size}, now in tier {tiers_text(after.tiers)}"


def _advice(manifest: ReadableManifestLog, states: list[SegmentState]) -> list[str]:
    from lakebed.aof.manifest.records import ReasonCode

    failures = {failure for state in states for failure in failures_of(state)}
    retry = "after fixing the credentials, run lakebed aof retry-upload {log}"
    advice = {
        Failure("upload", ReasonCode.UNAUTHORISED): retry,
        Failure("hydration", ReasonCode.MISSING): "objects are missing: run "
        "lakebed aof repair {log} --tier2",
        Failure(
            "compression", ReasonCode.CODEC
        ): "segments are damaged: run lakebed aof verify {log}",
    }
    lines = [text.format(log=manifest.log) for cause, text in advice.items() if cause in failures]
    if manifest.is_enabled is False:
        return ["the manifest log is switched off: these are its last records", *lines]
    return lines


class TierTotal(NamedTuple):
    """The number of segments and bytes in one tier."""

    segments: int
    bytes: int


def _tier_totals(states: list[SegmentState]) -> dict[int, TierTotal]:
    from lakebed.store.residency import TIERS, tier_bytes

    totals = {}
    for tier, flag in TIERS.items():
        there = [state for state in states if state.residency & flag]
        totals[tier] = TierTotal(len(there), sum(tier_bytes(state, tier) for state in there))
    return totals


class Failure(NamedTuple):
    """A kind of work (compression, upload or hydration) whose last attempt for a segment failed,
    and the reason."""

    work: str
    reason_code: int


def failures_of(state: SegmentState) -> list[Failure]:
    from lakebed.aof.manifest.state import Failures

    reasons = {
        Failures.COMPRESSION: state.compression_reason,
        Failures.UPLOAD: state.upload_reason,
        Failures.HYDRATION: state.hydration_reason,
    }
    return [
        Failure(str(flag.name).lower(), code)
        for flag, code in reasons.items()
        if state.failures & flag
    ]


def _failure_objects(failures: list[Failure]) -> list[dict[str, object]]:
    from lakebed.cli.manifest_text import reason_text

    return [
        {**failure._asdict(), "reason": reason_text(failure.reason_code)} for failure in failures
    ]


def _failures_text(failures: list[Failure]) -> str:
    from lakebed.cli.manifest_text import reason_text

    return cell_text(
        [f"{failure.work}: {reason_text(failure.reason_code)}" for failure in failures]
    )


def _state_text(state: SegmentState) -> str:
    from lakebed.aof.manifest.state import Condition

    words = ["sealed" if state.is_sealed else "open"]
    words += ["needs repair"] if state.needs_repair else []
    words += ["flush failure"] if state.condition & Condition.FLUSH_FAILURE else []
    return ", ".join(words)


def _ratio(state: SegmentState) -> float | None:
    compressed = state.compressed_bytes
    return round(state.durable_bytes / compressed, 2) if compressed else None


def _tiers(state: SegmentState) -> tuple[int, ...]:
    from lakebed.store.residency import tiers_of

    return tiers_of(state)


def _pending(state: SegmentState) -> list[str]:
    from lakebed.aof.manifest.state import Pending
    from lakebed.cli.manifest_text import flag_names

    return flag_names(state.pending, Pending)


SEGMENTS = (
    Column("segment_id", heading="segment"),
    Column("tiers", _tiers, "tiers", tiers_text),
    Column("state", lambda state: "sealed" if state.is_sealed else "open"),
    Column("", _state_text, "state"),
    Column("needs_repair"),
    Column("bytes", lambda state: state.durable_bytes if state.is_sealed else None, "bytes"),
    Column("compressed_bytes", lambda state: state.compressed_bytes or None, "compressed"),
    Column("ratio", _ratio, "ratio", lambda ratio: f"{ratio:.1f}"),
    Column("pending", _pending, "pending"),
    Column(
        "failures",
        failures_of,
        "failures",
        text=_failures_text,
        json=_failure_objects,
    ),
    Column("object_key", lambda state: state.key or None, "object key"),
    Column("etag", lambda state: state.etag or None),
)
MOVED = (
    Column("segment_id", lambda moved: moved.after.segment_id),
    Column("bytes"),
    Column("segment_bytes", lambda moved: moved.after.durable_bytes),
    Column("compressed_bytes", lambda moved: moved.after.compressed_bytes or None),
    Column("tiers", lambda moved: moved.after.tiers),
    Column("object_key", lambda moved: moved.after.key or None),
)
REPAIRED = (Column("segment_id"), Column("object_key", "key"), Column("outcome"))
FAILED = (
    Column("segment_id"),
    Column("kind", lambda failed: type(failed.error).__name__),
    Column("message", lambda failed: str(failed.error)),
)
MIGRATION = (
    Column("before"),
    Column("tier2", "after"),
    Column("copied_objects", "copied_count"),
    Column("copied_bytes"),
    Column("present_objects", "present_count"),
    Column("deleted_objects", "deleted_count"),
    Column("missing"),
    Column("left_at", lambda report: report.left_at or None),
)
