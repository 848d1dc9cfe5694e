"""The configuration of the job `land`, and the part of it that is sent to the tasks of one
table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal

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
DEAD_LETTERS: Final = "_dead_letters"  # suffix of the table name

TableFormat = Literal["delta", "parquet"]
Values = Literal["raw", "json"]
TimePartition = Literal["none", "day", "hour"]


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """One target table of the job `land`, with its sources and settings.

    It is sent to the tasks as JSON, and contains no secret.
    """

    is_log: bool
    names: tuple[str, ...]
    table: str
    dead_letters: str
    table_format: TableFormat
    values: Values
    schema_json: str = ""  # of the fields of JSON values, in Spark's JSON form
    evolves: bool
    message_columns: tuple[str, ...]
    prefix: str  # of the names of columns that do not come from the values
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
    """The configuration of the job `land`: which topics or logs to copy into which tables, and how.

    `{name}` in `table` stands for the name of the topic or log; each topic or log then has its own
    table, and its own folder below `checkpoint`.

    If `values` is `json`, the fields of the JSON values become columns, and the names of the
    columns that describe the message start with `prefix`. Without a `schema`, the fields of a new
    table are taken from a sample, and `evolves` is on by default: new fields become columns. With a
    schema, `evolves` is off by default. If `evolves` is off, fields without a column are dropped;
    with a schema, so are fields that the schema does not name.
    """

    source: Backend
    topics: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    table: str
    s3: Mapping[str, str] = field(repr=False)  # the S3 options of `lakebed.table`
    table_format: TableFormat = "delta"
    values: Values = "raw"
    schema: str = ""  # Spark DDL: `id BIGINT, name STRING`
    evolves: bool | None = None
    message_columns: tuple[str, ...] | None = None  # None: all; with JSON no value or headers
    prefix: str = "_"
    time_partition: TimePartition = "none"
    dead_letters: str = ""  # the name of their table; `{name}` as in `table`
    columns_max: int = 1000
    is_stream: bool = False  # otherwise the job ends when everything that exists now is landed
    interval_s: float = 10.0  # of a stream: time between batches; shorter means more small files
    batch_bytes_max: int = GIB
    batch_rows_max: int | None = None
    task_bytes: int = 256 * MIB
    starting_offsets: str = ""  # this and the next two: see the options of `lakebed.topic`
    starting_timestamp: str = ""
    fails_on_loss: bool = True
    checkpoint: str = ""  # a folder; by default below the store's root
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    creates_bucket: bool = False  # otherwise a missing bucket is an error
    optimize_batches: int = 50  # optimize and vacuum after so many batches; 0 means never
    optimizes_at_end: bool = False
    widens: bool = False  # before landing: widen columns to fit rescued values
    retries_dead_letters: bool = False  # after that: land dead letters again
    vacuum_retention_h: float | None = (
        None  # None: no vacuum; else with each optimize, and for Parquet also at the end
    )

    def __post_init__(self) -> None:
        self._check_names()
        if self.schema and self.values == "raw":
            raise BadConfig(
                "land: a schema can only be set if the setting 'values' is json, not raw"
            )
        if self.compression not in COMPRESSIONS:
            raise BadConfig(f"land: compression must be one of {', '.join(COMPRESSIONS)}")
        if self.starting_offsets and self.starting_timestamp:
            raise BadConfig("land: set starting offsets or a starting timestamp, not both")
        positive = ("columns_max", "batch_bytes_max", "batch_rows_max", "task_bytes", "file_bytes")
        minimums = dict.fromkeys(positive, 1) | {"interval_s": 0, "optimize_batches": 0}
        for name, minimum in minimums.items():
            value = getattr(self, name)
            if value is not None and value < minimum:
                raise BadConfig(f"land: {name} is {value}; it must be at least {minimum}")
        if self.vacuum_retention_h is not None:
            check_retention(self.vacuum_retention_h)
        changes = (self.optimizes_at_end, self.widens, self.retries_dead_letters)
        if self.table_format == "parquet" and any(changes):
            raise BadConfig(
                "land: optimizing at the end, widening columns and retrying dead letters are only "
                "possible for Delta tables, not for plain Parquet"
            )
        if self.values == "raw" and (self.widens or self.retries_dead_letters):
            raise BadConfig(
                "land: raw values always fit their columns, so there is nothing to widen, and "
                "there are no dead letters to retry"
            )
        if not self.checkpoint and not self.source.path:
            raise BadConfig(
                "land: set a folder for the checkpoint, because the store is given as an endpoint"
            )

    def landings(self, *, schema_json: str = "") -> list[Landing]:
        """Returns a `Landing` for each table. `schema_json` is `schema` in Spark's JSON form."""
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
        """Whether tables are ever optimized or vacuumed: Delta tables always are, plain Parquet
        tables only if a vacuum is configured.
        """
        return self.table_format == "delta" or self.vacuum_retention_h is not None

    def starting_offsets_of(self, landing: Landing) -> str:
        """Returns the starting offsets of the topics or logs that a table gets.

        If `starting_offsets` is JSON by topic or log, those of other tables are left out.
        """
        try:
            by_name = msgspec.json.decode(self.starting_offsets, type=dict[str, Any])
        except msgspec.DecodeError:
            return self.starting_offsets  # earliest, latest, or refused by the data source
        if not by_name or not {*self.topics, *self.logs}.issuperset(by_name):
            return self.starting_offsets
        own = {name: by_name[name] for name in landing.names if name in by_name}
        return msgspec.json.encode(own).decode() if own else ""

    def checkpoint_of(self, landing: Landing) -> str:
        """Returns the folder of the Spark checkpoint for a table.

        The name of the folder does not depend on the topics. So a topic that is added to the
        configuration later is landed from its start, while the other topics continue.
        """
        if self.checkpoint and NAME not in self.table:
            return self.checkpoint
        digest = blake2b(landing.table.encode(), digest_size=4).hexdigest()
        name = f"{landing.table.replace('/', '.')}-{digest}"
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
            omitted = (landing.value_column, "headers") if is_json else ()
            columns = tuple(name for name in landing.kind.fields.names if name not in omitted)
        elif columns:
            landing.kind.fields.checked(columns)
        elif not is_json:
            raise BadConfig("land: with raw values, message_columns must name at least one column")
        return msgspec.structs.replace(landing, message_columns=columns)

    def _check_names(self) -> None:
        if not self.topics and not self.logs:
            raise BadConfig("land: name at least one topic or log")
        if NAME not in self.table and self.topics and self.logs:
            raise BadConfig(
                f"land: topics and logs have different columns and need separate tables: use "
                f"{NAME} in the table name"
            )
        if NAME in self.table and set(self.topics) & set(self.logs):
            raise BadConfig(
                "land: a topic and a log have the same name, and so would share a table; land them "
                "in two runs, into tables with different names"
            )
        if NAME in self.table and self.dead_letters and NAME not in self.dead_letters:
            raise BadConfig(
                f"land: the table name contains {NAME}, so the name of the table for dead letters "
                "must contain it too"
            )
        landings = self.landings()
        tables = [name for landing in landings for name in (landing.table, landing.dead_letters)]
        folders = sorted("/".join(bucket_and_prefix(name)) + "/" for name in tables)
        for outer, inner in pairwise(folders):
            if inner.startswith(outer):  # a vacuum of the outer table would remove the inner one
                raise BadConfig(
                    f"land: the table {inner[:-1]} must not be the same as {outer[:-1]}, or "
                    "inside it"
                )
