"""`lakebed spark run replay`, `export` and `import`: messages published again, and as files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.spark_arguments import files_place, is_bucket, span_of
from lakebed.cli.spark_options import (
    CaFile,
    Compression,
    Conf,
    Create,
    Endpoint,
    FromOffset,
    FromTime,
    KeepPartitions,
    Master,
    Name,
    OnlyPartition,
    Partitions,
    Remote,
    S3Endpoint,
    StagingBucket,
    ToOffset,
    ToTime,
    Wishes,
)
from lakebed.cli.spark_run import Ground, Needs, require_spark, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.publication import Publication
    from lakebed.spark.jobs.report import Report
    from lakebed.spark.jobs.span import Span

    MakePublishing = Callable[..., Publication]

Origin = Annotated[str, typer.Argument(metavar="FROM", help="The topic, or with --log the log.")]
ToTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="Where they are published.")]
Files = Annotated[
    str, typer.Argument(metavar="FILES", help="A folder, or s3://bucket/prefix: Parquet files.")
]


def replay(
    context: typer.Context,
    origin: Origin,
    topic: ToTopic,
    log: Annotated[bool, typer.Option("--log", help="FROM is a log, in whatever tiers.")] = False,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    partition: OnlyPartition = None,
    name: Name = None,
    keep_partitions: KeepPartitions = False,
    create: Create = False,
    partitions: Partitions = None,
    compression: Compression = "none",
    staging_bucket: StagingBucket = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
) -> None:
    """Publish a range of messages again, by offsets or by time; a partition gets all or none.

    Keys, values, headers and timestamps stay. Of a log the payloads become values, and an offset
    is a record id, as 3:64.

    \b
    lakebed spark run replay orders again --create --from-time 2025-01-31T12:00:00Z
    lakebed spark run replay orders orders --from-offset 2:100 --to-offset 2:200 --partition 2
    lakebed spark run replay audit events --log --name once
    """
    require_spark()
    from lakebed.spark.jobs.publication import Publication

    publishing = partial(
        Publication,
        topic=topic,
        name=name or "",
        keeps_partitions=keep_partitions,
        creates_topic=create,
        partitions=partitions,
        compression=compression,
        staging_bucket=staging_bucket or "",
    )
    offsets, times = (from_offset, to_offset), (from_time, to_time)
    span = span_of(offsets=offsets, times=times, partitions=partition, is_log=log)
    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    _run_replay(invocation(context), wishes, publishing, span, origin, is_log=log)


def _run_replay(
    run: Invocation, wishes: Wishes, publishing: MakePublishing, span: Span, name: str, is_log: bool
) -> None:
    from lakebed.spark.jobs.replay import replay as run_replay
    from lakebed.spark.jobs.span import Origin, resolve

    origin = Origin(name, is_log=is_log)

    def check(backend: Backend) -> None:
        resolve(backend, origin, span)
        publishing(backend=backend).check()

    def job(ground: Ground) -> Report:
        to = publishing(backend=ground.backend)
        return run_replay(
            ground.spark, ground.backend, origin, to, span=span, watcher=ground.watcher
        )

    run_job(run, wishes, job, needs=Needs.STORE, check=check)


def export(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What is read.")],
    files: Files,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    partition: OnlyPartition = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what an export wrote there before.")
    ] = False,
    compression: Annotated[
        str, typer.Option(metavar="CODEC", help="Of the files: zstd, snappy, gzip, lz4, none.")
    ] = "zstd",
    file_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Of a file, about, before it is compressed.")
    ] = "64MiB",
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
    s3_endpoint: S3Endpoint = None,
) -> None:
    """Write messages as Parquet files: topic, partition, offset, timestamp, key, value, headers.

    A folder must be one that all workers share. `_SUCCESS` is there when all files are.

    \b
    lakebed spark run export orders /backup/orders
    lakebed spark run export orders s3://backup/orders --from-time 2025-01-31T00:00:00Z
    """
    require_spark()
    from lakebed.base.units import parse_bytes
    from lakebed.spark.jobs.span import Origin, resolve
    from lakebed.spark.jobs.transfer import export_topic

    offsets, times = (from_offset, to_offset), (from_time, to_time)
    span = span_of(offsets=offsets, times=times, partitions=partition)
    exporting = partial(
        export_topic,
        span=span,
        overwrite=overwrite,
        compression=compression,
        file_bytes=parse_bytes(file_size),
    )

    def job(ground: Ground) -> Report:
        to = files_place(files, ground.s3)
        return exporting(ground.spark, ground.backend, topic, to, watcher=ground.watcher)

    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    run_job(
        invocation(context),
        wishes.with_s3(s3_endpoint),
        job,
        needs=Needs.S3 if is_bucket(files) else Needs.NOTHING,
        check=lambda backend: resolve(backend, Origin(topic), span),
    )


def import_(
    context: typer.Context,
    files: Files,
    topic: ToTopic,
    name: Name = None,
    keep_partitions: KeepPartitions = False,
    create: Create = False,
    partitions: Partitions = None,
    compression: Compression = "none",
    staging_bucket: StagingBucket = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
    s3_endpoint: S3Endpoint = None,
) -> None:
    """Publish what Parquet files have; a partition gets all of its messages, or none.

    The columns: value, and perhaps key, timestamp, headers and partition. What an export wrote
    comes in as it was, in its order.

    \b
    lakebed spark run import /backup/orders orders --create --keep-partitions --partitions 3
    lakebed spark run import s3://backup/orders orders --name restore-1
    """
    require_spark()
    from lakebed.spark.jobs.publication import Publication

    publishing = partial(
        Publication,
        topic=topic,
        name=name or "",
        keeps_partitions=keep_partitions,
        creates_topic=create,
        partitions=partitions,
        compression=compression,
        staging_bucket=staging_bucket or "",
    )
    wishes = Wishes(master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file)
    _run_import(invocation(context), wishes.with_s3(s3_endpoint), publishing, files)


def _run_import(run: Invocation, wishes: Wishes, publishing: MakePublishing, files: str) -> None:
    from lakebed.spark.jobs.parquet_files import parquet_files
    from lakebed.spark.jobs.transfer import import_topic

    def check(backend: Backend) -> None:
        publishing(backend=backend).check()
        if not is_bucket(files):
            parquet_files(files_place(files, {}))

    def job(ground: Ground) -> Report:
        to = publishing(backend=ground.backend)
        return import_topic(ground.spark, files_place(files, ground.s3), to, watcher=ground.watcher)

    needs = Needs.S3 if is_bucket(files) else Needs.STORE
    run_job(run, wishes, job, needs=needs, check=check)
