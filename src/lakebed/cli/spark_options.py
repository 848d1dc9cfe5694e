"""Options that several jobs of `lakebed spark run` share: for Spark, for the store, for the range
of messages to read, and for publishing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.invocation import Invocation

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The Spark master to run on, for example spark://host:7077. Default: local[*], Spark "
        "on all cores of this machine.",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The Spark Connect server to run on, for example sc://host:15002."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="Set an option of Spark, for example spark.executor.memory=4g; may be repeated.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The URL of the HTTP API of a node, for workers that cannot access the files of "
        "--root. The access key is taken from the URL, else from LAKEBED_ACCESS_KEY and "
        "LAKEBED_SECRET_KEY. Default: --root if that is a URL; otherwise workers access the files.",
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A file with the certificates to trust for https:// endpoints."
    ),
]
S3Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The URL of the S3 endpoint of a node, for jobs that use a bucket. The access key is "
        "taken from LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY, else from the AWS_… variables. "
        "Needed for such a job with --endpoint, or if --root is a URL. Default: the job opens the "
        "store in --root itself and serves it over S3 while it runs.",
    ),
]
FromOffset = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[N:]OFFSET",
        help="Start at this offset of partition N, or, if N is left out, of every partition for "
        "which no offset is given; may be repeated. In a log: a record id, given once. Default: "
        "the oldest message.",
    ),
]
ToOffset = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[N:]OFFSET",
        help="Stop before this offset of partition N, or, if N is left out, of every partition for "
        "which no offset is given; may be repeated. In a log: a record id, given once. Default: "
        "the end when the job starts.",
    ),
]
FromTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Read only messages with a timestamp at or after this time: ISO 8601, or ms "
        "since 1970.",
    ),
]
ToTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Read only messages with a timestamp before this time: ISO 8601, or ms since 1970.",
    ),
]
OnlyPartition = Annotated[
    list[int] | None,
    typer.Option(
        "--partition",
        metavar="N",
        min=0,
        help="Read only this partition; may be repeated. Default: all partitions.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A name that makes the job safe to repeat: a further run with the same name skips the "
        "partitions to which the job has already published. Default: each run publishes all "
        "messages.",
    ),
]
KeepPartitions = Annotated[
    bool,
    typer.Option(
        "--keep-partitions",
        help="Keep the partition number of each message. Default: choose the partition by the "
        "key, and spread messages without a key over all partitions.",
    ),
]
Create = Annotated[
    bool, typer.Option("--create", help="Create the target topic if it does not exist.")
]
Partitions = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="With --create: the number of partitions of a new topic. Default: 1; with "
        "--keep-partitions, as many as the source has.",
    ),
]
ImportPartitions = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        metavar="N",
        min=1,
        help="With --create: the number of partitions of a new topic. Default: 1. With "
        "--keep-partitions, give at least as many as the files have.",
    ),
]
Compression = Annotated[
    str,
    typer.Option(
        metavar="CODEC",
        help="The compression of the published messages: none, gzip, snappy, lz4, zstd.",
    ),
]
StagingBucket = Annotated[
    str | None,
    typer.Option(
        metavar="BUCKET",
        help="With --endpoint: the bucket in which the messages are stored before they are "
        "published. Default: none; then all messages must fit into one request (16 MiB).",
    ),
]


@dataclass(frozen=True, kw_only=True)
class SparkOptions:
    """The options of a job for Spark and the store."""

    master: str | None = None
    remote: str | None = None
    conf: list[str] | None = None
    endpoint: str | None = None
    ca_file: Path | None = None
    s3_endpoint: str | None = None

    def with_s3(self, url: str | None) -> SparkOptions:
        return replace(self, s3_endpoint=url)

    def at(self, run: Invocation) -> SparkOptions:
        """Returns the options with the endpoint to use: the option `--endpoint`, else `--root` if
        that is a URL, else none."""
        if self.endpoint is not None:
            return replace(self, ca_file=self.ca_file or run.ca_file)
        endpoint = run.place.endpoint
        return (
            self
            if endpoint is None
            else replace(self, endpoint=endpoint, ca_file=self.ca_file or run.ca_file)
        )

    def spark_options(self) -> dict[str, str]:
        """Returns the `--conf` options by name. Raises `InputError` if one is not valid, or if both
        `--master` and `--remote` are given."""
        from lakebed.base.errors import InputError
        from lakebed.base.units import shown

        if self.master is not None and self.remote is not None:
            raise InputError("--master and --remote cannot be combined: give one of them")
        options = {}
        for text in self.conf or ():
            name, equals, value = text.partition("=")
            if not equals or not name.startswith("spark."):
                raise InputError(f"--conf {shown(text)}: write it as spark.NAME=VALUE")
            options[name] = value
        return options
