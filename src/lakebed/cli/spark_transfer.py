"""`lakebed spark run replay`, `export` and `import`: copy messages between topics and files."""

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
    ImportPartitions,
    KeepPartitions,
    Master,
    Name,
    OnlyPartition,
    Partitions,
    Remote,
    S3Endpoint,
    SparkOptions,
    StagingBucket,
    ToOffset,
    ToTime,
)
from lakebed.cli.spark_run import JobContext, StoreAccess, require_spark, run_job

if TYPE_CHECKING:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.publication import Publication
    from lakebed.spark.jobs.report import Report
    from lakebed.spark.jobs.span import Span

    MakePublishing = Callable[..., Publication]

Origin = Annotated[
    str, typer.Argument(metavar="FROM", help="The source topic, or with --log the source log.")
]
ToTopic = Annotated[str, typer.Argument(metavar="TOPIC", help="The target topic.")]
Files = Annotated[
    str,
    typer.Argument(
        metavar="FILES", help="The location of the Parquet files: a folder, or s3://bucket/prefix."
    ),
]


def replay(
    context: typer.Context,
    origin: Origin,
    topic: ToTopic,
    log: Annotated[
        bool, typer.Option("--log", help="Read a log: FROM is its name. Default: FROM is a topic.")
    ] = False,
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
    """Publish a range of messages again, to a topic. Each partition gets all its messages or none.

    Keys, values, headers and timestamps are kept. With --log, the payloads of records become
    values, and offsets are record ids, for example 3:64.

    \b
    Examples:
      Replay messages since noon to a new topic:
        lakebed spark run replay orders again --create --from-time 2025-01-31T12:00:00Z
      Replay 100 messages of a partition:
        lakebed spark run replay orders orders --from-offset 2:100 --to-offset 2:200 --partition 2
      Replay a log, only once even if the command is repeated:
        lakebed spark run replay audit events --log --name audit-1
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
    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    _run_replay(invocation(context), options, publishing, span, origin, is_log=log)


def _run_replay(
    run: Invocation,
    options: SparkOptions,
    publishing: MakePublishing,
    span: Span,
    name: str,
    is_log: bool,
) -> None:
    from lakebed.spark.jobs.replay import check as check_replay
    from lakebed.spark.jobs.replay import replay as run_replay
    from lakebed.spark.jobs.span import Origin, resolve

    origin = Origin(name, is_log=is_log)

    def check(backend: Backend) -> None:
        resolve(backend, origin, span)
        to = publishing(backend=backend)
        check_replay(origin, to)
        to.check()

    def job(resources: JobContext) -> Report:
        to = publishing(backend=resources.backend)
        return run_replay(
            resources.spark, resources.backend, origin, to, span=span, watcher=resources.watcher
        )

    run_job(run, options, job, needs=StoreAccess.WRITE, check=check)


def export(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The source topic.")],
    files: Files,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    partition: OnlyPartition = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Delete the files of an earlier export first; fail if the target has other files. "
            "Default: fail if the target has any files.",
        ),
    ] = False,
    compression: Annotated[
        str,
        typer.Option(
            metavar="CODEC", help="The compression of the files: zstd, snappy, gzip, lz4, none."
        ),
    ] = "zstd",
    file_size: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="About how much data of the topic goes into one file, at most. Files are smaller "
            "if that lets all cores work.",
        ),
    ] = "64MiB",
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
    s3_endpoint: S3Endpoint = None,
) -> None:
    """Write messages as Parquet files.

    The columns are topic, partition, offset, timestamp, key, value and headers. If FILES is a
    folder, all workers must be able to access it. An empty file named _SUCCESS is written after all
    other files.

    \b
    Examples:
      Export a topic to a folder:
        lakebed spark run export orders /backup/orders
      Export messages since midnight to a bucket:
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

    def job(resources: JobContext) -> Report:
        to = files_place(files, resources.s3)
        return exporting(resources.spark, resources.backend, topic, to, watcher=resources.watcher)

    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    run_job(
        invocation(context),
        options.with_s3(s3_endpoint),
        job,
        needs=StoreAccess.S3 if is_bucket(files) else StoreAccess.READ,
        check=lambda backend: resolve(backend, Origin(topic), span),
    )


def import_(
    context: typer.Context,
    files: Files,
    topic: ToTopic,
    name: Name = None,
    keep_partitions: KeepPartitions = False,
    create: Create = False,
    partitions: ImportPartitions = None,
    compression: Compression = "none",
    staging_bucket: StagingBucket = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    endpoint: Endpoint = None,
    ca_file: CaFile = None,
    s3_endpoint: S3Endpoint = None,
) -> None:
    """Publish messages from Parquet files. Each partition gets all its messages or none.

    The files need the column value, and may have key, timestamp, headers and partition; topic and
    offset are ignored. So the files of an export can be imported as they are; with
    --keep-partitions, the messages of each partition keep their order.

    \b
    Examples:
      Import an export to a new topic:
        lakebed spark run import /backup/orders orders --create --keep-partitions --partitions 3
      Import from a bucket, only once even if the command is repeated:
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
    options = SparkOptions(
        master=master, remote=remote, conf=conf, endpoint=endpoint, ca_file=ca_file
    )
    _run_import(invocation(context), options.with_s3(s3_endpoint), publishing, files)


def _run_import(
    run: Invocation, options: SparkOptions, publishing: MakePublishing, files: str
) -> None:
    from lakebed.spark.jobs.parquet_files import parquet_files
    from lakebed.spark.jobs.transfer import import_topic

    def check(backend: Backend) -> None:
        publishing(backend=backend).check()
        if not is_bucket(files):
            parquet_files(files_place(files, {}))

    def job(resources: JobContext) -> Report:
        to = publishing(backend=resources.backend)
        return import_topic(
            resources.spark, files_place(files, resources.s3), to, watcher=resources.watcher
        )

    needs = StoreAccess.S3 if is_bucket(files) else StoreAccess.WRITE
    run_job(run, options, job, needs=needs, check=check)
