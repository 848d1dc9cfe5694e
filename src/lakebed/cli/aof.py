"""`lakebed aof`: the logs of a store.

Commands that only read work while another process writes, and take no lock, except `repair
--dry-run`. Only `append` creates a log. Only `convert` writes files outside the store, apart from
the objects of a Tier 2 that is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import Enum
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from lakebed.cli import aof_checks, aof_tiers
from lakebed.cli.failure import INTERRUPT_EXIT_CODE
from lakebed.cli.interrupts import HeldInterrupts
from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.progress import Progress
from lakebed.cli.record_printer import RecordPrinter, Show
from lakebed.cli.report import Column, Rows, Text, Value, counted, object_of, objects
from lakebed.cli.store_access import (
    DAMAGED_EXIT_CODE,
    LogName,
    open_files,
    open_to_read,
    open_to_write,
    reaching_tier2,
    require_log,
)
from lakebed.cli.values import moment_text, parse_moment_ns, tiers_text

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.aof.damage import OnSkipped, SkippedRange
    from lakebed.aof.record_batch import Record, RecordBatch
    from lakebed.aof.record_id import RecordId
    from lakebed.api.read_surface import ReadableLog
    from lakebed.cli.input_lines import Read
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.summary import LogSummary

TAIL_COUNT_MAX = 1_000_000
PRINT_COUNT = 1000  # records printed at a time
_EXT_ID_MAX = (1 << 64) - 1

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Append to, read, follow, verify and repair logs, and move segments between tiers.",
)

ShowOption = Annotated[
    list[Show] | None,
    typer.Option(
        metavar="ids|times|ext-ids",
        help="Print this field and a tab before each record: its id, its time (ns since 1970) or "
        "its ext_id; may be repeated.",
    ),
]
TimeOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Print only the first record at or after this time and the records after it: ISO "
        "8601, or ns since 1970.",
    ),
]
SkipOption = Annotated[
    bool,
    typer.Option(
        "--skip-damage",
        help="Skip and report damaged records; the exit code is 65 if any were skipped. Default: "
        "fail at the first.",
    ),
]


class Layout(Enum):
    """The layouts of a segment file: logs use `runtime`; `interchange` is for other programs."""

    INTERCHANGE = "interchange"
    RUNTIME = "runtime"


@app.command()
def append(
    context: typer.Context,
    log: LogName,
    file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Read this file instead of standard input; may be repeated."
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Append each --file as one record, not line by line.")
    ] = False,
    ext_id: Annotated[
        int,
        typer.Option(
            min=0,
            max=_EXT_ID_MAX,
            metavar="N",
            help="A number of your choice that is stored with every appended record.",
        ),
    ] = 0,
) -> None:
    """Append lines from standard input, one record per line, and wait until they are durable.

    Creates the log if it does not exist. Newlines are removed. At an empty line, or a line that is
    too long for a record, the command ends with an error that names the line; the records before
    that line are kept.

    \b
    Examples:
      Append 1,000 records:
        seq 1000 | lakebed aof append numbers
      Append the lines of a file:
        lakebed aof append audit --file today.log --ext-id 7
    """
    from lakebed.aof.segment import payload_bytes_max
    from lakebed.base.errors import InputError
    from lakebed.cli.input_lines import BadLine, standard_input
    from lakebed.cli.record_appender import Appender, segment_bytes

    run = invocation(context)
    if whole and not file:
        raise InputError("--whole needs at least one --file")
    files = file or []
    _check_files(files)
    with (
        open_to_write(run, log, create=True) as store,
        Progress("append") as progress,
        HeldInterrupts() as interrupts,
    ):
        appender = Appender(store, log, ext_id=ext_id)
        record_bytes_max = payload_bytes_max(segment_bytes(store))
        try:
            read = standard_input(interrupts)
            for batch in _inputs(read, files, whole=whole, record_bytes_max=record_bytes_max):
                appender.append(batch)
                progress.count(appender.count, "records")
                interrupts.raise_kept()
        except BadLine as error:
            appender.finish()
            kept = f"kept before it: {counted(appender.count, 'record')}"
            last = f", the last is {appender.last}" if appender.count else ""
            raise BadLine(f"{error}; {kept}{last}") from error
        appender.finish()
    last_id = None if appender.last is None else str(appender.last)
    last = "" if last_id is None else f", the last is {last_id}"
    run.output.show(
        Value("log", log),
        Value("records", appender.count),
        Value("last_record_id", last_id),
        Text(f"{log}: appended {counted(appender.count, 'record')}{last}"),
    )


@app.command()
def cat(
    context: typer.Context,
    log: LogName,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="ID", help="Print only records from this id on, for example 3:64."
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="ID", help="Print only records before this id.")
    ] = None,
    from_time: TimeOption = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Print the newest record first.")
    ] = False,
    count_max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=0, help="Print at most N records.")
    ] = None,
    show: ShowOption = None,
    skip_damage: SkipOption = False,
    archived: Annotated[
        bool,
        typer.Option(
            "--archived",
            help="Print the archive instead: records that retention moved out of the log.",
        ),
    ] = False,
) -> None:
    """Print the durable records of a log, one per line.

    With --json, each line is a JSON object for one record. Works while another process writes.

    \b
    Examples:
      Print records since noon, with their ids:
        lakebed aof cat orders --from-time 2025-01-31T12:00:00Z --show ids
      Print the newest record as JSON:
        lakebed --json aof cat orders --reverse --max 1
      Print archived records:
        lakebed aof cat orders --archived
    """
    from lakebed.aof.record_id import RecordId
    from lakebed.base.errors import InputError

    run = invocation(context)
    if start is not None and from_time is not None:
        raise InputError("--from and --from-time cannot be combined: give one of them")
    first = None if start is None else RecordId.parse(start)
    stop = None if end is None else RecordId.parse(end)
    start_ns = None if from_time is None else parse_moment_ns(from_time)
    printer = RecordPrinter(run.output, show=show or ())
    skipped: list[str] = []

    def note(place: SkippedRange) -> None:
        skipped.append(str(place.error))
        run.output.note(f"skipped: {place.error}")

    on_skipped = note if skip_damage else None
    with (
        reaching_tier2(log),
        _opened_records(run, log, archived=archived, on_skipped=on_skipped) as reader,
    ):
        if start_ns is not None:
            first = reader.seek_timestamp(start_ns)
        if reverse:
            records = reader.read_backward(stop)
            wanted = takewhile(lambda record: first is None or record.record_id >= first, records)
            left = islice(wanted, count_max)
            while some := list(islice(left, PRINT_COUNT)):
                printer.records(some)
        else:
            for batch in _at_most(reader.read_batches(first, stop), count_max):
                printer.batch(batch)
    if skipped:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def tail(
    context: typer.Context,
    log: LogName,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", help="Then print new records when they are durable, until Ctrl-C."
        ),
    ] = False,
    count: Annotated[
        int,
        typer.Option(
            "-n", metavar="N", min=0, max=TAIL_COUNT_MAX, help="Print the last N records."
        ),
    ] = 10,
    show: ShowOption = None,
) -> None:
    """Print the last records of a log, and with --follow also new records.

    With --json, each line is a JSON object for one record. Works while another process writes.

    \b
    Examples:
      Print the last 20 records:
        lakebed aof tail orders -n 20
      Print records as they are appended:
        lakebed aof tail orders --follow
    """
    run = invocation(context)
    printer = RecordPrinter(run.output, show=show or ())
    with reaching_tier2(log), open_to_read(run) as store:
        require_log(store, log)
        reading = store.open_log(log)
        end = reading.durable_end()
        last = list(islice(reading.read_backward(), count))
        if not follow:
            printer.records(reversed(last))
            return
        try:
            _follow(reading, last[-1].record_id if last else end, printer)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPT_EXIT_CODE) from None


@app.command()
def segments(context: typer.Context, log: LogName) -> None:
    """List the segments of a log, with their sizes, record counts, states and tiers.

    \b
    Examples:
      List the segments of a log:
        lakebed aof segments orders
    """
    run = invocation(context)
    with open_to_read(run) as store:
        summary = store.log_summary(log)
    run.output.show(Value("log", log), Rows("segments", SEGMENTS, summary.segments))


@app.command()
def seal(context: typer.Context, log: LogName) -> None:
    """Seal the active segment of a log. Later appends go to a new segment.

    \b
    Examples:
      Seal the active segment:
        lakebed aof seal orders
    """
    from dataclasses import replace

    run = invocation(context)
    with open_to_write(run, log) as store:
        sealed = store.open_log(log).seal_current_segment(timeout=60.0)
        if sealed is not None:
            (path,) = run.place.named([sealed.path], store)
            sealed = replace(sealed, path=path)
    if sealed is None:
        run.output.show(
            Value("log", log),
            Value("sealed", None),
            Text(f"{log}: there is no record to seal"),
        )
        return
    run.output.show(
        Value("log", log),
        Value("sealed", object_of(SEALED, sealed)),
        Text(f"{log}: segment {sealed.segment_id} is sealed, {sealed.end} bytes"),
    )


@app.command()
def convert(
    context: typer.Context,
    log: LogName,
    segment: Annotated[
        str,
        typer.Argument(
            metavar="SEGMENT", help="The number of a segment, or the path of a segment file."
        ),
    ],
    layout: Annotated[
        Layout,
        typer.Option(
            "--to", metavar="interchange|runtime", help="The layout of the converted file."
        ),
    ],
    output: Annotated[str, typer.Option(metavar="DIR", help="The folder for the converted file.")],
    lossy: Annotated[
        bool,
        typer.Option(
            "--lossy",
            help="Drop fields that the other layout lacks. Required with --to interchange.",
        ),
    ] = False,
    stream_id: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=_EXT_ID_MAX,
            metavar="N",
            help="With --to interchange: the stream id in the file. Default: the log's.",
        ),
    ] = None,
    base_record_count: Annotated[
        int,
        typer.Option(
            min=0,
            max=_EXT_ID_MAX,
            metavar="N",
            help="With --to runtime: the number of records in the log before this segment, which "
            "is stored in the file.",
        ),
    ] = 0,
) -> None:
    """Convert a sealed segment to the other layout, as a new file in the folder --output.

    Logs use the runtime layout; the interchange layout is for other programs. The segment itself is
    not changed, and record ids stay valid. --to interchange always needs --lossy, because that
    layout has no sealing time, no ext_ids and only milliseconds. --to runtime needs --lossy only if
    records have flags.

    \b
    Examples:
      Convert segment 0:
        lakebed aof convert orders 0 --to interchange --lossy --output converted
    """
    from lakebed.aof.conversion import to_interchange, to_runtime
    from lakebed.base.files import make_folders

    run = invocation(context)
    with open_files(run) as store:
        source = _segment_path(store, log, segment)
        if not store.disk.is_folder(output):
            make_folders(store.disk, output)
        if layout is Layout.INTERCHANGE:
            stream_id = _stream_id(store, log) if stream_id is None else stream_id
            target = to_interchange(store.disk, source, output, stream_id=stream_id, lossy=lossy)
        else:
            target = to_runtime(
                store.disk, source, output, base_record_count=base_record_count, lossy=lossy
            )
    run.output.show(
        Value("log", log),
        Value("source", source),
        Value("target", target),
        Value("layout", layout),
        Text(f"{source}: written to {target}"),
    )


@app.command()
def dump(
    context: typer.Context,
    log: Annotated[
        str | None, typer.Argument(metavar="[LOG]", help="The name of the log. Default: all logs.")
    ] = None,
) -> None:
    """Show the state, the counters and the tiers of logs, read from their files.

    \b
    Examples:
      Show all logs:
        lakebed aof dump
      Show one log as JSON:
        lakebed --json aof dump orders
    """
    from lakebed.base.errors import DataError

    run = invocation(context)
    summaries: list[LogSummary] = []
    problems: dict[str, str] = {}
    with open_to_read(run) as store:
        for name in store.logs() if log is None else [log]:
            try:
                summaries.append(store.log_summary(name))
            except DataError as error:
                # One damaged log does not hide the others.
                problems[name] = str(error)
        run.output.show(
            Value("root", store.root),
            Value("store", store.version),
            Value("pins", objects(PINS, store.pins.active())),
            Rows("logs", LOGS, summaries),
            Value("problems", problems),
            Text(*(f"{name}: {problem}" for name, problem in problems.items())),
        )
    if problems:
        raise typer.Exit(DAMAGED_EXIT_CODE)


# Commands of the group in other modules.

app.command()(aof_checks.verify)
app.command()(aof_checks.repair)
app.command()(aof_tiers.tiers)
app.command()(aof_tiers.upload)
app.command()(aof_tiers.evict)
app.command()(aof_tiers.hydrate)
app.command()(aof_tiers.retry_upload)
app.command()(aof_tiers.migrate_tier2)


# Appending.


def _check_files(paths: list[str]) -> None:
    """Opens and closes each file before anything is appended, so that a wrong name fails early."""
    from lakebed.kernels.disk import real_disk

    for path in paths:
        real_disk().open(path).close()


def _inputs(
    read: Read, paths: list[str], *, whole: bool, record_bytes_max: int
) -> Iterator[list[bytes]]:
    from lakebed.cli.input_lines import line_batches, reads_of, whole_file
    from lakebed.kernels.disk import real_disk

    if not paths:
        yield from line_batches(read, record_bytes_max=record_bytes_max)
    for path in paths:
        with real_disk().open(path) as file:
            if whole:
                yield [whole_file(file, record_bytes_max=record_bytes_max)]
            else:
                yield from line_batches(
                    reads_of(file), record_bytes_max=record_bytes_max, source=path
                )


# Reading.


class LogRecords(NamedTuple):
    """The methods that read the records of a log."""

    seek_timestamp: Callable[[int], RecordId]
    read_batches: Callable[[RecordId | None, RecordId | None], Iterator[RecordBatch]]
    read_backward: Callable[[RecordId | None], Iterator[Record]]


@contextmanager
def _opened_records(
    run: Invocation, log: str, *, archived: bool, on_skipped: OnSkipped | None
) -> Iterator[LogRecords]:
    """Opens a log, or its archive, for reading.

    With `on_skipped`, damaged ranges are skipped, and `on_skipped` is called with each of them.
    Without it, reading damage raises an error.
    """
    if not archived and on_skipped is None:
        with open_to_read(run) as store:
            require_log(store, log)
            reading = store.open_log(log)
            yield LogRecords(reading.seek_timestamp, reading.read_batches, reading.read_backward)
        return
    from lakebed.aof.reader import LogReader

    with open_files(run, "--archived" if archived else "--skip-damage") as files:
        view = files.archived_log(log) if archived else files.log(log)
        policy: dict[str, Any] = {"skip_damage": on_skipped is not None, "on_skipped": on_skipped}
        with LogReader(view) as reader:
            yield LogRecords(
                partial(reader.seek_timestamp, skip_damage=on_skipped is not None),
                partial(reader.read_batches, **policy),
                partial(reader.read_backward, **policy),
            )


def _at_most(batches: Iterator[RecordBatch], count_max: int | None) -> Iterator[RecordBatch]:
    """Yields batches with up to `count_max` records in total; None means no limit."""
    left = count_max
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        if left is not None:
            batch = batch if len(batch) <= left else batch.part(0, left)
            left -= len(batch)
        yield batch


def _follow(log: ReadableLog, start: RecordId, printer: RecordPrinter) -> None:
    from lakebed.cli import output

    with closing(log.follow(start)) as follower:
        while (batch := follower.next_batch()) is not None:
            printer.batch(batch)
            output.flush()


def _stream_id(store: ReadOnlyStore, log: str) -> int:
    """Returns the stream id of the log: from `log.json`; if that is missing, from the name of the
    manifest log's folder; 0 if there is not exactly one such folder."""
    from lakebed.aof.identity import OWN_FOLDER, find_identity
    from lakebed.aof.paths import LogPaths
    from lakebed.base.errors import NotFound

    try:
        return find_identity(store.disk, LogPaths(store.root, log), tier2=OWN_FOLDER).stream_id
    except NotFound:
        return 0


def _segment_path(store: ReadOnlyStore, log: str, segment: str) -> str:
    from lakebed.base.errors import NotFound

    found = [*store.log(log).segments(), *store.archived_log(log).segments()]
    if not (segment.isascii() and segment.isdigit()):
        return segment
    for info in found:
        if str(info.segment_id) == (segment.lstrip("0") or "0"):
            if info.tier:
                hint = f"bring it back with lakebed aof hydrate {log} {info.segment_id}"
                raise NotFound(f"{log}: segment {info.segment_id} is in Tier {info.tier}; {hint}")
            return info.path
    raise NotFound(f"{log}: there is no segment {segment[:40]}")


def _record_id_text(position: int) -> str:
    """Formats a packed record id, which is an integer, as text such as `3:64`."""
    from lakebed.aof.record_id import RecordId

    return str(RecordId(position))


def _bytes(summary: LogSummary) -> int:
    return sum(segment.bytes for segment in summary.segments)


def _residency(summary: LogSummary) -> dict[str, object]:
    archived = summary.count("archived")
    return {
        **{f"tier{tier}": total for tier, total in enumerate(summary.tiers)},
        "archive": {"segments": archived, "bytes": summary.total_bytes("archived")},
    }


# Columns of reports.

SEGMENTS = (
    Column("id", "segment_id", "id"),
    Column("base_offset", heading="base offset"),
    Column("created_at_ns", "created_at", "created", moment_text),
    Column("sealed_at_ns", "sealed_at", "sealed", moment_text),
    Column("bytes", heading="bytes"),
    Column("file_bytes"),
    Column("records", heading="records"),
    Column("state", heading="state"),
    Column("tiers", heading="tiers", text=tiers_text),
    Column("path"),
)
SEALED = (Column("segment_id"), Column("bytes", "end"), Column("path"))
PINS = (
    Column("pin_id"),
    Column("log"),
    Column("segment_start", "start"),
    Column("segment_end", "end"),
    Column("expires_ms"),
    Column("owner"),
    Column("created_ms"),
)
_STATE = (
    Column("oldest", json=_record_id_text),
    Column("durable_end", json=_record_id_text),
    Column("coordinator_watermark"),
    Column("writer_epoch"),
)
_COUNTERS = (
    Column("records", lambda summary: summary.records()),
    Column("bytes", _bytes),
    Column("segments_sealed", lambda summary: summary.count("sealed")),
    Column("segments_unsealed", lambda summary: summary.count("active", "unsealed")),
    Column("segments_archived", lambda summary: summary.count("archived")),
    Column(
        "flush_failures",
        lambda summary: sum(segment.flush_failure for segment in summary.segments),
    ),
    Column("spare_files"),
    Column("ignored_files"),
)
LOGS = (
    Column("log", "name", "log"),
    Column("state", lambda summary: object_of(_STATE, summary)),
    Column("counters", lambda summary: object_of(_COUNTERS, summary)),
    Column("residency", _residency),
    Column("", lambda summary: summary.records(), "records"),
    Column("", _bytes, "bytes"),
    Column("", lambda summary: summary.count("sealed"), "sealed"),
    Column("", lambda summary: summary.count("active", "unsealed"), "unsealed"),
    Column("", lambda summary: summary.count("archived"), "archived"),
    Column("", lambda summary: summary.tiers[0].segments, "tier 0"),
    Column("", lambda summary: summary.tiers[1].segments, "tier 1"),
    Column("", lambda summary: summary.tiers[2].segments, "tier 2"),
    Column("", "oldest", "oldest", _record_id_text),
    Column("", "durable_end", "durable end", _record_id_text),
    Column("", "coordinator_watermark", "watermark"),
    Column("", "writer_epoch", "epoch"),
)
