"""`lakebed spark run land`: writes topics and logs to tables in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.spark_options import (
    CaFile,
    Conf,
    Endpoint,
    Master,
    Remote,
    S3Endpoint,
    SparkOptions,
)
from lakebed.cli.spark_run import JobContext, StoreAccess, require_spark, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.land import LandConfig
    from lakebed.spark.jobs.report import Report


class Format(StrEnum):
    """The format of the table that messages are written to."""

    DELTA = "delta"
    PARQUET = "parquet"


class Values(StrEnum):
    """How message values are stored: unchanged, or as JSON objects with a column for each field."""

    RAW = "raw"
    JSON = "json"


class Period(StrEnum):
    """The period of the timestamps by which a table is partitioned."""

    NONE = "none"
    DAY = "day"
    HOUR = "hour"


Table = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="The table: BUCKET/PREFIX. {name} in it stands for the name of the topic or log, so "
        "that each has its own table.",
    ),
]
Topic = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME", help="Land this topic; may be repeated."),
]
Log = Annotated[
    list[str] | None, typer.Option("--log", metavar="NAME", help="Land this log; may be repeated.")
]
FormatOption = Annotated[
    Format, typer.Option("--format", metavar="delta|parquet", help="The format of the table.")
]
ValuesOption = Annotated[
    Values,
    typer.Option(
        metavar="raw|json",
        help="raw: store each value unchanged. json: store JSON objects with one column per field.",
    ),
]
Schema = Annotated[
    str,
    typer.Option(
        metavar="DDL",
        help="With --values json: the schema of the messages, for example 'id BIGINT, name "
        "STRING'. Default: that of the table; for a new table, inferred from a sample.",
    ),
]
Evolve = Annotated[
    bool | None,
    typer.Option(
        "--evolve/--no-evolve",
        help="With --values json: whether fields that the table lacks become new columns. "
        "Default: yes, unless --schema is given.",
    ),
]
PartitionBy = Annotated[
    Period,
    typer.Option(
        metavar="none|day|hour",
        help="Partition the table by the day or the hour of the message timestamps, or not at all.",
    ),
]
DeadLetters = Annotated[
    str,
    typer.Option(
        metavar="TABLE",
        help="The table for messages that cannot be converted to rows. "
        "Default: TABLE_dead_letters.",
    ),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Keep landing new messages until Ctrl-C. Default: land the current messages and exit.",
    ),
]
Interval = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="With --stream: how often new messages are committed; 0: as soon as the previous "
        "commit ends.",
    ),
]
StartOffsets = Annotated[
    str,
    typer.Option(
        metavar="WHERE",
        help="Where the first run starts: earliest, latest, or JSON with offsets by partition, for "
        'example {"0": 17}; partitions that are left out start at the earliest message. For a log: '
        'a record id, as partition 0: {"0": "3:64"}. Of several topics or logs: by name and '
        'partition: {"orders": {"0": 17}}. Default: earliest.',
    ),
]
StartTime = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Instead of --starting-offsets: start the first run at the first message at or after "
        "this time: ISO 8601, or ms since 1970.",
    ),
]
Checkpoint = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="The folder in which Spark keeps its progress. Default: a folder in --root; required "
        "with --endpoint, or if --root is a URL.",
    ),
]
BatchSize = Annotated[
    str,
    typer.Option(metavar="SIZE", help="About how many bytes of messages go into one commit."),
]
Optimize = Annotated[
    bool,
    typer.Option(
        "--optimize",
        help="Compact small files of a Delta table at the end of the run too, not only every 50 "
        "commits.",
    ),
]
Vacuum = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS",
        help="Delete files that have not been needed for HOURS (at least 168). Delta: after each "
        "compaction (see --optimize), files that the table no longer has. Parquet: during the run "
        "and at its end, only files that killed tasks left. Default: delete none.",
    ),
]
CreateBucket = Annotated[
    bool, typer.Option("--create-bucket", help="Create the bucket if it does not exist.")
]
Widen = Annotated[
    bool,
    typer.Option(
        "--widen",
        help="Before landing, widen integer columns if numbers that did not fit were stored in the "
        "column _rescued, and move these numbers into the widened columns. Only for a Delta table "
        "with --values json.",
    ),
]
RetryDeadLetters = Annotated[
    bool,
    typer.Option(
        "--retry-dead-letters",
        help="Before new messages, try to land the dead letters again. Only for a Delta table with "
        "--values json.",
    ),
]


def land(
    context: typer.Context,
    table: Table,
    topic: Topic = None,
    log: Log = None,
    table_format: FormatOption = Format.DELTA,
    values: ValuesOption = Values.RAW,
    schema: Schema = "",
    evolve: Evolve = None,
    partition_by: PartitionBy = Period.NONE,
    dead_letters: DeadLetters = "",
    stream: Stream = False,
    interval: Interval = 10.0,
    starting_offsets: StartOffsets = "",
    starting_time: StartTime = "",
    checkpoint: Checkpoint = "",
    batch_size: BatchSize = "1GiB",
    optimize: Optimize = False,
    vacuum_hours: Vacuum = None,
    create_bucket: CreateBucket = False,
    widen: Widen = False,
    retry_dead_letters: RetryDeadLetters = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
    s3_endpoint: S3Endpoint = None,
) -> None:
    """Write topics and logs to tables in a bucket, each message exactly once.

    Run the command again to continue where the last run stopped. Messages that cannot be converted
    to rows are written to a separate table, as dead letters.

    \b
    Examples:
      Land a topic as a table:
        lakebed spark run land lake/orders --topic orders
      Land the JSON of two topics continuously:
        lakebed spark run land 'lake/{name}' --topic orders --topic events --values json --stream
    """
    require_spark()
    from lakebed.base.units import parse_bytes
    from lakebed.spark.jobs.land import LandConfig

    config = partial(
        LandConfig,
        topics=tuple(topic or ()),
        logs=tuple(log or ()),
        table=table,
        table_format=table_format.value,
        values=values.value,
        schema=schema,
        evolves=evolve,
        time_partition=partition_by.value,
        dead_letters=dead_letters,
        is_stream=stream,
        interval_s=interval,
        starting_offsets=starting_offsets,
        starting_timestamp=starting_time,
        checkpoint=checkpoint and str(Path(checkpoint).absolute()),
        batch_bytes_max=parse_bytes(batch_size),
        optimizes_at_end=optimize,
        vacuum_retention_h=vacuum_hours,
        creates_bucket=create_bucket,
        widens=widen,
        retries_dead_letters=retry_dead_letters,
    )
    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    run_job(
        invocation(context),
        options.with_s3(s3_endpoint),
        lambda resources: _land(resources, config(source=resources.backend, s3=resources.s3)),
        needs=StoreAccess.S3,
        check=lambda backend: _check(backend, config(source=backend, s3={})),
    )


def _land(resources: JobContext, config: LandConfig) -> Report:
    from lakebed.spark.jobs.land import land as run_land

    return run_land(resources.spark, config, watcher=resources.watcher)


def _check(backend: Backend, config: LandConfig) -> None:
    """Raises `NotFound` if a topic or a log that the job would land does not exist."""
    from lakebed.spark.jobs.span import Origin, Span, resolve

    names: Mapping[bool, tuple[str, ...]] = {False: config.topics, True: config.logs}
    for is_log, sources in names.items():
        for name in sources:
            resolve(backend, Origin(name, is_log=is_log), Span())
