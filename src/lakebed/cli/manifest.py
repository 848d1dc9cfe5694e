"""`lakebed manifest`: the manifest log of a log, which records every change of its segments.

The commands take no lock, change nothing, and work while another process writes and after a crash.
They show what is committed; by default, the writer commits a change after at most about 250 ms.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.manifest_logs import DAMAGE_MARK, MANIFEST_LOG, require_manifest_log, title
from lakebed.cli.progress import Progress
from lakebed.cli.report import Column, Item, Rows, Text, Value, counted, object_of
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, advised, open_to_read, quiet
from lakebed.cli.values import parse_moment_ns

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakebed.aof.manifest.replay import Moment, ReplayResult
    from lakebed.api.read_surface import ReadableManifestLog
    from lakebed.cli.manifest_records import Inspected
    from lakebed.store.manifest_survey import Entry
    from lakebed.store.manifest_verification import ManifestReport

LIMIT_DEFAULT = 1000
LIMIT_MAX = 1_000_000
_U64_MAX = (1 << 64) - 1

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Inspect and verify the manifest log of a log.",
)

LogName = Annotated[
    str,
    typer.Argument(metavar="LOG", help="The name of the log, or its stream id of 16 hex digits."),
]


@app.command()
def inspect(
    context: typer.Context,
    log: LogName,
    chunk: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=_U64_MAX, help="Show only records of this chunk."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION",
            help="Start at this position of the manifest log (CHUNK:OFFSET), for example 3:64.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=LIMIT_MAX, help="Show at most N records and damaged places."
        ),
    ] = LIMIT_DEFAULT,
    type_name: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="NAME",
            help="Show only damage and records of this type, for example SealSegment or 1.",
        ),
    ] = None,
    segment: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=_U64_MAX,
            help="Show only damage and records about this segment.",
        ),
    ] = None,
) -> None:
    """List the chunks, snapshots and records of a manifest log, and mark damage with !!.

    Undamaged records of a damaged chunk are shown too. The exit code is 65 if there is damage.

    \b
    Examples:
      List the chunks, the snapshots and the first 1000 records:
        lakebed manifest inspect orders
      List the first 20 seals:
        lakebed manifest inspect orders --type SealSegment --limit 20
      Continue at a position, by stream id:
        lakebed manifest inspect 00f1c2a0b3d4e5f6 --from 3:64
    """
    from lakebed.base.errors import InputError
    from lakebed.cli.manifest_records import (
        CHUNKS,
        ENTRIES,
        SNAPSHOTS,
        entry_object,
        snapshot_object,
    )
    from lakebed.cli.manifest_text import parse_type
    from lakebed.store.manifest_moments import parse_position
    from lakebed.store.manifest_survey import Damaged, entries

    run = invocation(context)
    if chunk is not None and start is not None:
        raise InputError("--chunk and --from cannot be combined: give one of them")
    position = None if start is None else parse_position(start)
    record_type = None if type_name is None else parse_type(type_name)
    with open_to_read(run) as store:
        inspected = _look(require_manifest_log(store, log))
        first = chunk if position is None else position.chunk_index
        _require_chunk(inspected, first, is_exact=chunk is not None)
        all_entries = entries(inspected.manifest.reader, start=position, chunk_index=chunk)
        matching = _matching(all_entries, type_number=record_type, segment_id=segment)
        inspected.shown = list(islice(matching, limit))
        inspected.following = next(matching, None)
    manifest, following, shown = inspected.manifest, inspected.following, inspected.shown
    snapshots = inspected.snapshots
    counts = {
        "of an unknown type": inspected.unknown_count,
        "with flags": inspected.flagged_count,
    }
    run.output.show(
        Item(MANIFEST_LOG, manifest),
        Value("problem", manifest.damage),
        Text(title(manifest)),
        Text(*([] if manifest.damage is None else [f"{DAMAGE_MARK} {manifest.damage}"]), ""),
        Rows("chunks", CHUNKS, inspected.chunks),
        Value("snapshots", [snapshot_object(facts) for facts in snapshots]),
        Text(*([""] if snapshots else [])),
        Rows("", SNAPSHOTS, snapshots, hides_empty=True),
        Value(
            "records", [entry_object(entry) for entry in shown if not isinstance(entry, Damaged)]
        ),
        Value("damages", [entry_object(entry) for entry in shown if isinstance(entry, Damaged)]),
        Value("unknown_records", inspected.unknown_count),
        Value("flagged_records", inspected.flagged_count),
        Value("ignored_files", inspected.ignored),
        Value("next", None if following is None else str(following.position)),
        Text(""),
        Rows("", ENTRIES, shown),
        Text(*(f"ignored: {name}" for name in inspected.ignored)),
        Text(*(f"{counted(count, 'record')} {what}" for what, count in counts.items() if count)),
        Text(*([] if following is None else [f"more: --from {following.position}"])),
    )
    if inspected.is_damaged:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def verify(context: typer.Context, log: LogName) -> None:
    """Verify a manifest log, and that it agrees with the segments and their copies.

    The exit code is 65 if anything is torn, corrupt or lost. There is only a note if Tier 2 lacks
    chunks older than the oldest on disk, or has them damaged: no replay needs them. Notes do not
    affect the exit code. Other notes are, for example, about changes that the next writer will
    record, stray files or unknown records. Recorded objects are looked up in Tier 2: if no damage
    is found, the exit code is 75 if Tier 2 is not available, and 77 if it refuses access.

    \b
    Examples:
      Verify the manifest log of a log:
        lakebed manifest verify orders
    """
    run = invocation(context)
    with quiet("lakebed.aof.tiers"), open_to_read(run) as store, Progress("verify") as progress:
        manifest = require_manifest_log(store, log)
        report = store.maintenance.verify_manifest(log, progress=progress.update)
    lines = [str(problem) for problem in report.problems]
    lines += [f"note: {note}" for note in report.notes]
    if not report.problems:
        verdict = "all whole" if report.unreached is None else "whole as far as they were read"
        lines.append(f"{manifest.log}: {_counts(report)}, {verdict}")
    run.output.show(Item(MANIFEST_LOG, manifest), Item(MANIFEST_REPORT, report), Text(*lines))
    if report.problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)
    if report.unreached is not None:
        raise advised(report.unreached, manifest.log)


@app.command()
def history(
    context: typer.Context,
    log: LogName,
    segment: Annotated[
        int,
        typer.Argument(metavar="SEGMENT", min=0, max=_U64_MAX, help="The number of the segment."),
    ],
) -> None:
    """Show the recorded history of one segment: every change, with its time.

    If the oldest chunks were removed, the history includes the state of the segment in the oldest
    snapshot.

    \b
    Examples:
      Show the history of segment 3:
        lakebed manifest history orders 3
    """
    from lakebed.base.errors import NotFound
    from lakebed.cli.manifest_records import HISTORY, step_object, timeline
    from lakebed.store.manifest_moments import segment_history
    from lakebed.store.manifest_survey import Damaged

    run = invocation(context)
    with open_to_read(run) as store:
        manifest = require_manifest_log(store, log)
        try:
            steps = segment_history(manifest.reader, segment)
        except NotFound as error:
            raise NotFound(f"{manifest.log}: {error}") from None
    moments = list(timeline(steps))
    run.output.show(
        Item(MANIFEST_LOG, manifest),
        Value("segment_id", segment),
        Value("steps", [step_object(moment) for moment in moments]),
        Text(f"{title(manifest)}, segment {segment}", ""),
        Rows("", HISTORY, moments),
    )
    if manifest.damage is not None or any(isinstance(step, Damaged) for step in steps):
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def state(
    context: typer.Context,
    log: LogName,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="WHEN",
            help="Show the state before the record at this position of the manifest log "
            "(CHUNK:OFFSET), for example 3:64, or at this time: ISO 8601, or ns since 1970. "
            "Default: now.",
        ),
    ] = None,
) -> None:
    """Show the recorded state of all segments, now or at an earlier moment.

    \b
    Examples:
      Show the state now:
        lakebed manifest state orders
      Show the state at a time:
        lakebed manifest state orders --as-of 2025-01-31T12:00:00Z
      Show the state before a record:
        lakebed manifest state orders --as-of 3:64
    """
    from lakebed.cli.manifest_states import STATES, problems_of, totals_of, totals_text
    from lakebed.cli.manifest_text import moment_columns, time_text

    run = invocation(context)
    moment = None if as_of is None else _moment(as_of)
    with open_to_read(run) as store:
        manifest = require_manifest_log(store, log)
        replayed = _replayed(manifest, moment)
    index, snapshot = replayed.index, replayed.snapshot
    problems, deletes = problems_of(manifest, replayed), list(index.pending_deletes)
    state_moment = {
        "position": str(replayed.end),
        **object_of(moment_columns("time", lambda index: index.last_timestamp_ms), index),
        "snapshot": None if snapshot is None else snapshot.snapshot_id,
        "records_replayed": replayed.record_count,
    }
    run.output.show(
        Item(MANIFEST_LOG, manifest),
        Value("as_of", state_moment),
        Text(f"{title(manifest)}, as of {replayed.end}, {time_text(index.last_timestamp_ms)}", ""),
        Rows("segments", STATES, list(index.segments())),
        Text("", *(f"pending delete: {key}" for key in deletes)),
        Value("pending_deletes", deletes),
        Value("totals", totals_of(index)),
        Value("problems", problems),
        Text(*totals_text(index), *(f"{DAMAGE_MARK} {problem}" for problem in problems)),
    )
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


def _look(manifest: ReadableManifestLog) -> Inspected:
    """Returns a description of the chunks and snapshots; the caller adds the records to show."""
    from lakebed.cli.manifest_records import Inspected
    from lakebed.store.manifest_survey import ignored_names, survey_chunks, survey_snapshots

    return Inspected(
        manifest,
        chunks=[looked.facts for looked in survey_chunks(manifest.reader)],
        snapshots=list(survey_snapshots(manifest.reader)),
        ignored=ignored_names(manifest.reader),
    )


def _require_chunk(inspected: Inspected, chunk: int | None, *, is_exact: bool) -> None:
    """Raises `NotFound` if the chunk does not exist. Does nothing if `chunk` is None.

    Without `is_exact`, a later chunk may exist instead.
    """
    from lakebed.base.errors import NotFound

    indexes = [facts.chunk_index for facts in inspected.chunks]
    if (
        chunk is None
        or chunk in indexes
        or (not is_exact and any(chunk <= index for index in indexes))
    ):
        return
    span = f"it has chunks {indexes[0]} to {indexes[-1]}" if indexes else "it has none"
    raise NotFound(f"{inspected.manifest.log}: its manifest log has no chunk {chunk}; {span}")


def _matching(
    entries: Iterator[Entry], *, type_number: int | None, segment_id: int | None
) -> Iterator[Entry]:
    """Yields the records of that type and about that segment; None means any.

    Also yields all damage, because damage may hide such records.
    """
    from lakebed.store.manifest_survey import Damaged

    for entry in entries:
        if isinstance(entry, Damaged) or (
            type_number in (None, entry.record.type_number)
            and segment_id in (None, entry.record.segment_id)
        ):
            yield entry


def _moment(text: str) -> Moment:
    from lakebed.aof.manifest.replay import Moment
    from lakebed.base.clock import NS_PER_MS
    from lakebed.store.manifest_moments import looks_like_position, parse_position

    if looks_like_position(text):
        return Moment(position=parse_position(text))
    return Moment(timestamp_ms=parse_moment_ns(text) // NS_PER_MS)


def _replayed(manifest: ReadableManifestLog, moment: Moment | None) -> ReplayResult:
    from lakebed.base.errors import NotFound
    from lakebed.cli.manifest_text import time_text
    from lakebed.store.manifest_moments import BeforeHistory, state_as_of

    try:
        return state_as_of(manifest.reader, moment)
    except BeforeHistory as error:
        when = time_text(error.beginning.timestamp_ms)
        raise NotFound(f"{manifest.log}: {error}, {when}") from None
    except NotFound as error:
        raise NotFound(f"{manifest.log}: {error}") from None


def _counts(report: ManifestReport) -> str:
    uploaded = report.uploaded_chunk_count
    counts = (
        counted(report.chunk_count, "chunk"),
        counted(report.record_count, "record"),
        counted(report.snapshot_count, "snapshot"),
        counted(report.segment_count, "segment"),
        *([counted(report.warm_file_count, "warm file")] if report.warm_file_count else []),
        *([counted(report.object_count, "object")] if report.object_count else []),
        *([counted(uploaded, "uploaded chunk")] if uploaded else []),
    )
    return ", ".join(counts)


MANIFEST_REPORT = (
    Column("ok", lambda report: not report.problems and report.unreached is None),
    Column("chunks", "chunk_count"),
    Column("records", "record_count"),
    Column("snapshots", "snapshot_count"),
    Column("snapshots_compared", "compared_snapshot_count"),
    Column("segments_compared", "segment_count"),
    Column("warm_files", "warm_file_count"),
    Column("objects", "object_count"),
    Column("chunks_uploaded", "uploaded_chunk_count"),
    Column("problems"),
    Column("notes"),
)
