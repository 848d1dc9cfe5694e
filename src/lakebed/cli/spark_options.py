"""What every command of `lakebed spark run` can be told: which Spark, and where the store is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.invocation import Invocation

Master = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark master, as spark://host:7077; else local[*]."),
]
Remote = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark Connect server, as sc://host:15002.")
]
Conf = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of Spark; repeatable.")
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The HTTP API of a node, for workers that do not share the files of --root. "
        "Keys: LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY.",
    ),
]
CaFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificates to trust of https endpoints.")
]
S3Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The S3 of a node, with the same keys; else the store is opened and served here.",
    ),
]
FromOffset = Annotated[
    list[str] | None,
    typer.Option(metavar="[N:]OFFSET", help="From there on, of all or of one partition."),
]
ToOffset = Annotated[
    list[str] | None,
    typer.Option(metavar="[N:]OFFSET", help="Up to there, and not with it."),
]
FromTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="From then on: 2025-01-31T12:00:00Z, or ms.")
]
ToTime = Annotated[str | None, typer.Option(metavar="TIME", help="Up to then, and not with it.")]
OnlyPartition = Annotated[
    list[int] | None,
    typer.Option("--partition", metavar="N", min=0, help="Only this one; repeatable."),
]
Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Do it once: whoever repeats it by this name adds nothing."),
]
KeepPartitions = Annotated[
    bool, typer.Option("--keep-partitions", help="To the same partitions; else by key, or in turn.")
]
Create = Annotated[bool, typer.Option("--create", help="Create the topic if there is none.")]
Partitions = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Of a topic that is created.")
]
Compression = Annotated[
    str, typer.Option(metavar="CODEC", help="Of the messages: none, gzip, snappy, lz4, zstd.")
]
StagingBucket = Annotated[
    str | None,
    typer.Option(
        metavar="BUCKET", help="Where tasks put what they write, with --endpoint; else little fits."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The options that all jobs share."""

    master: str | None = None
    remote: str | None = None
    conf: list[str] | None = None
    endpoint: str | None = None
    ca_file: Path | None = None
    s3_endpoint: str | None = None

    def with_s3(self, url: str | None) -> Wishes:
        return replace(self, s3_endpoint=url)

    def at(self, run: Invocation) -> Wishes:
        """With the URL of `--root` as the endpoint, unless another one is given."""
        if self.endpoint is not None:
            return replace(self, ca_file=self.ca_file or run.ca_file)
        endpoint = run.place.endpoint
        return (
            self
            if endpoint is None
            else replace(self, endpoint=endpoint, ca_file=self.ca_file or run.ca_file)
        )

    def spark_options(self) -> dict[str, str]:
        """`InputError` if one is not NAME=VALUE, or no option of Spark."""
        from lakebed.base.errors import InputError
        from lakebed.base.units import shown

        if self.master is not None and self.remote is not None:
            raise InputError("--master or --remote: one of both")
        found = {}
        for text in self.conf or ():
            name, equals, value = text.partition("=")
            if not equals or not name.startswith("spark."):
                raise InputError(f"--conf {shown(text)}: expected NAME=VALUE, as spark.name=value")
            found[name] = value
        return found
