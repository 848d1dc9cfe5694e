"""`lakebed spark run land`: topics and logs as tables in a bucket."""

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
    Wishes,
)
from lakebed.cli.spark_run import Ground, Needs, require_spark, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.land import LandConfig
    from lakebed.spark.jobs.report import Report


class Format(StrEnum):
    """Of a table."""

    DELTA = "delta"
    PARQUET = "parquet"


class Values(StrEnum):
    """How values are taken."""

    RAW = "raw"
    JSON = "json"


class Period(StrEnum):
    """That a table is partitioned by."""

    NONE = "none"
    DAY = "day"
    HOUR = "hour"


Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="BUCKET/PREFIX; with {name}, a table for each topic."),
]
Topic = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="Land it; repeatable.")
]
Log = Annotated[
    list[str] | None, typer.Option("--log", metavar="NAME", help="Land this log; repeatable.")
]
FormatOption = Annotated[Format, typer.Option("--format", help="Of the table.")]
ValuesOption = Annotated[
    Values, typer.Option(help="As they are, or JSON objects whose fields become columns.")
]
Schema = Annotated[
    str, typer.Option(metavar="DDL", help="Of JSON: 'id BIGINT, name STRING'; else from a sample.")
]
Evolve = Annotated[
    bool | None, typer.Option("--evolve/--no-evolve", help="Whether new fields become columns.")
]
PartitionBy = Annotated[Period, typer.Option(help="A period of the messages' timestamps.")]
DeadLetters = Annotated[
    str, typer.Option(metavar="TABLE", help="For what is no row; else TABLE_dead_letters.")
]
Stream = Annotated[
    bool, typer.Option("--stream", help="Go on until Ctrl-C; else what is there now is landed.")
]
Interval = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How often a stream looks for more.")
]
StartOffsets = Annotated[
    str, typer.Option(metavar="WHERE", help="earliest, latest, or JSON; only of a first run.")
]
StartTime = Annotated[
    str, typer.Option(metavar="TIME", help="The same by time: 2025-01-31T12:00:00Z, or ms.")
]
Checkpoint = Annotated[
    str,
    typer.Option(metavar="DIR", help="Where Spark keeps the query's state; else below the root."),
]
BatchSize = Annotated[
    str, typer.Option(metavar="SIZE", help="Of what is read at most for one commit.")
]
Optimize = Annotated[
    bool, typer.Option("--optimize", help="Join small files in the end, too, not only at times.")
]
Vacuum = Annotated[
    float | None,
    typer.Option(
        metavar="HOURS", help="Remove files that were not needed for so long, 168 or more."
    ),
]
CreateBucket = Annotated[
    bool, typer.Option("--create-bucket", help="Create the bucket if it does not exist.")
]
Widen = Annotated[
    bool,
    typer.Option(
        "--widen", help="First rewrite columns of whole numbers that rescued numbers do not fit."
    ),
]
RetryDeadLetters = Annotated[
    bool, typer.Option("--retry-dead-letters", help="First land dead letters again.")
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
    """Make tables of topics and logs, in a bucket; each message is in its table once.

    Started again it goes on where it was, whatever ended it. What cannot be a row goes to a table
    of dead letters.

    \b
    lakebed spark run land lake/orders --topic orders
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
    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    run_job(
        invocation(context),
        wishes.with_s3(s3_endpoint),
        lambda ground: _land(ground, config(source=ground.backend, s3=ground.s3)),
        needs=Needs.S3,
        check=lambda backend: _check(backend, config(source=backend, s3={})),
    )


def _land(ground: Ground, config: LandConfig) -> Report:
    from lakebed.spark.jobs.land import land as run_land

    return run_land(ground.spark, config, watcher=ground.watcher)


def _check(backend: Backend, config: LandConfig) -> None:
    """That everything is there."""
    from lakebed.spark.jobs.span import Origin, Span, resolve

    names: Mapping[bool, tuple[str, ...]] = {False: config.topics, True: config.logs}
    for is_log, ones in names.items():
        for name in ones:
            resolve(backend, Origin(name, is_log=is_log), Span())
