"""What is to be landed where and how; and what of it the tasks of one table need to know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from lakebed.base.errors import BadConfig
from lakebed.base.units import GIB, MIB
from lakebed.spark.backends import Backend
from lakebed.spark.sinks.table import COMPRESSIONS
from lakebed.spark.tables.files import FILE_BYTES
from lakebed.spark.tables.location import bucket_and_prefix
from lakebed.spark.tables.upkeep import check_retention

if TYPE_CHECKING:
    from lakebed.spark.sources.settings import Kind

NAME: Final = "{name}"
DEAD_LETTERS: Final = "_dead_letters"  # behind the name of the table

TableFormat = Literal["delta", "parquet"]
Values = Literal["raw", "json"]
TimePartition = Literal["none", "day", "hour"]


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """One table and what goes there. It travels to the tasks, as JSON; no secret is in it."""

    is_log: bool
    names: tuple[str, ...]
    table: str
    dead_letters: str
    table_format: TableFormat
    values: Values
    schema_json: str = ""  # of the fields of JSON values, as Spark writes it
    evolves: bool
    message_columns: tuple[str, ...]
    prefix: str  # of the columns that are not the values' own
    time_partition: TimePartition
    columns_max: int
    compression: str
    file_bytes: int
    creates_bucket: bool
    optimize_batches: int
    vacuum_retention_h: float | None

    @property
    def kind(self) -> Kind:
        if self.is_log:
            from lakebed.spark.sources.aof import LOGS

            return LOGS
        from lakebed.spark.sources.topic import TOPICS

        return TOPICS

    @property
    def value_column(self) -> str:
        return "payload" if self.is_log else "value"


@dataclass(frozen=True, kw_only=True)
class LandConfig:
    """`{name}` in `table` is the topic's (or log's) name: each has a table of its own then.

    With `{name}` and a `checkpoint`, each table has a folder of its own below that. JSON values
    have columns for their fields, and their message's columns begin with `prefix`. Without a
    `schema` fields are found in a sample, and `evolves` is on: new fields become columns. With
    one, fields that it does not name are left out, unless `evolves`.
    """

    source: Backend
    topics: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    table: str
    s3: Mapping[str, str] = field(repr=False)  # the options of `lakebed.table` that say where
    table_format: TableFormat = "delta"
    values: Values = "raw"
    schema: str = ""  # as Spark's DDL has it: `id BIGINT, name STRING`
    evolves: bool | None = None
    message_columns: tuple[str, ...] | None = None  # None: all but, of JSON, value and headers
    prefix: str = "_"
    time_partition: TimePartition = "none"
    dead_letters: str = ""  # their table; `{name}` as in `table`
    columns_max: int = 1000
    is_stream: bool = False  # else what is there now, and then it ends
    interval_s: float = 10.0  # of a stream: how often it looks, and how many small files it makes
    batch_bytes_max: int = GIB
    batch_rows_max: int | None = None
    task_bytes: int = 256 * MIB
    starting_offsets: str = ""  # as of `lakebed.topic`, like the next two
    starting_timestamp: str = ""
    fails_on_loss: bool = True
    checkpoint: str = ""  # a folder; by default below the store's root
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    creates_bucket: bool = False  # else a bucket that does not exist is an error
    optimize_batches: int = 50  # after so many; 0: never
    optimizes_at_end: bool = False
    widens: bool = False  # first of all: columns become wide enough for what was rescued
    retries_dead_letters: bool = False  # then: dead letters that are rows by now become rows
    vacuum_retention_h: float | None = None  # with each optimize; of Parquet at its end, too

    def __post_init__(self) -> None:
        self._check_names()
        if self.schema and self.values == "raw":
            raise BadConfig("land: a schema is for JSON values")
        if self.compression not in COMPRESSIONS:
            raise BadConfig(f"land: compression is one of {', '.join(COMPRESSIONS)}")
        if self.starting_offsets and self.starting_timestamp:
            raise BadConfig("land: it starts at offsets, or at a timestamp")
        numbers = (self.columns_max, self.batch_bytes_max, self.task_bytes, self.file_bytes)
        if min(numbers) < 1 or (self.batch_rows_max is not None and self.batch_rows_max < 1):
            raise BadConfig("land: sizes and counts are 1 at least")
        if min(self.interval_s, self.optimize_batches) < 0:
            raise BadConfig("land: nothing here can be negative")
        if self.vacuum_retention_h is not None:
            check_retention(self.vacuum_retention_h)
        changes = (self.optimizes_at_end, self.widens, self.retries_dead_letters)
        if self.table_format == "parquet" and any(changes):
            raise BadConfig(
                "land: only Delta tables can be optimized, widened, or take dead letters again"
            )
        if self.values == "raw" and (self.widens or self.retries_dead_letters):
            raise BadConfig("land: raw values always fit: nothing was rescued, or is a dead letter")
        if not self.checkpoint and not self.source.path:
            raise BadConfig("land: with an endpoint, give the folder of the checkpoint")

    def landings(self, *, schema_json: str = "") -> list[Landing]:
        """Of each table. `schema_json` is what Spark made of `schema`."""
        sources = [(False, self.topics)] if self.topics else []
        sources += [(True, self.logs)] if self.logs else []
        if NAME in self.table:
            sources = [(is_log, (name,)) for is_log, names in sources for name in names]
        return [self._landing(is_log, names, schema_json) for is_log, names in sources]

    @property
    def keeps_up_at_end(self) -> bool:
        return self.optimizes_at_end or (self.table_format == "parquet" and self._needs_upkeep)

    @property
    def _needs_upkeep(self) -> bool:
        """Of plain Parquet there is nothing but what killed tasks left."""
        return self.table_format == "delta" or self.vacuum_retention_h is not None

    def checkpoint_of(self, landing: Landing) -> str:
        """Of a table, and not of its topics: one that is added later is begun at its beginning."""
        if self.checkpoint and NAME not in self.table:
            return self.checkpoint
        mark = blake2b(landing.table.encode(), digest_size=4).hexdigest()
        name = f"{landing.table.replace('/', '.')}-{mark}"
        if self.checkpoint:
            return f"{self.checkpoint.rstrip('/')}/{name}"
        return os.path.join(os.path.abspath(self.source.path), "spark", "checkpoints", name)

    def _landing(self, is_log: bool, names: tuple[str, ...], schema_json: str) -> Landing:
        table = self.table.replace(NAME, names[0])
        is_json = self.values == "json"
        columns = self.message_columns
        landing = Landing(
            is_log=is_log,
            names=names,
            table=table,
            dead_letters=self.dead_letters.replace(NAME, names[0]) or table + DEAD_LETTERS,
            table_format=self.table_format,
            values=self.values,
            schema_json=schema_json,
            evolves=is_json and (not self.schema if self.evolves is None else self.evolves),
            message_columns=(),
            prefix=self.prefix if is_json else "",
            time_partition=self.time_partition,
            columns_max=self.columns_max,
            compression=self.compression,
            file_bytes=self.file_bytes,
            creates_bucket=self.creates_bucket,
            optimize_batches=self.optimize_batches if self._needs_upkeep else 0,
            vacuum_retention_h=self.vacuum_retention_h,
        )
        if columns is None:
            left_out = (landing.value_column, "headers") if is_json else ()
            columns = tuple(one for one in landing.kind.fields.names if one not in left_out)
        elif columns:
            landing.kind.fields.checked(columns)
        elif not is_json:
            raise BadConfig("land: raw values need columns")
        return msgspec.structs.replace(landing, message_columns=columns)

    def _check_names(self) -> None:
        if not self.topics and not self.logs:
            raise BadConfig("land: which topics, or which logs?")
        if NAME not in self.table and self.topics and self.logs:
            raise BadConfig(f"land: topics and logs have other columns: give a table with {NAME}")
        if NAME in self.table and set(self.topics) & set(self.logs):
            raise BadConfig("land: a topic and a log of one name would go into one table")
        if NAME in self.table and self.dead_letters and NAME not in self.dead_letters:
            raise BadConfig(f"land: the tables have {NAME}, and so must those of the dead letters")
        landings = self.landings()
        tables = [name for one in landings for name in (one.table, one.dead_letters)]
        folders = sorted("/".join(bucket_and_prefix(name)) + "/" for name in tables)
        for one, other in pairwise(folders):
            if other.startswith(one):  # where a vacuum would take it for something left over
                raise BadConfig(
                    f"land: {other[:-1]} needs a place of its own, apart from {one[:-1]}"
                )
