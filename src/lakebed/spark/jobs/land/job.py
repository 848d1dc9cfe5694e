"""The job: starts a query for each table, follows them, and keeps the tables up."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql.types import StructType

from lakebed.base.units import MIB
from lakebed.spark.backends import backend_options
from lakebed.spark.jobs.land.config import LandConfig, Landing
from lakebed.spark.jobs.land.data_source import (
    NAME,
    LandingSource,
    SourceOptions,
    keep_up,
    landing_options,
    targets,
)
from lakebed.spark.jobs.land.dead_letter_retry import retry_dead_letters
from lakebed.spark.jobs.land.executor_call import call_on_executor
from lakebed.spark.jobs.land.json_decoder import check_decodable
from lakebed.spark.jobs.land.query_progress import METRICS, LandedCounts, Tally, follow, sum_of
from lakebed.spark.jobs.land.rows import MessageRows
from lakebed.spark.jobs.land.shapes import Shape
from lakebed.spark.jobs.land.target import ensure_buckets
from lakebed.spark.jobs.land.task import first_schema, taken_names
from lakebed.spark.jobs.land.wider_columns import widen
from lakebed.spark.jobs.report import Report
from lakebed.spark.jobs.watcher import NullWatcher, Watcher
from lakebed.spark.options import milliseconds
from lakebed.spark.tables.schemas import as_table_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SAMPLE_SPLITS: Final = 8
SAMPLE_SPLIT_BYTES: Final = 256 * MIB
_NOBODY: Final = NullWatcher()


def land(spark: SparkSession, config: LandConfig, watcher: Watcher = _NOBODY) -> Report:
    """Until all that is there now is landed; a stream until its queries are stopped.

    Several tables are landed one after the other, and streams side by side.
    """
    spark.dataSource.register(LandingSource)
    places = SourceOptions(feed=_feed_options(config), s3=dict(config.s3))
    landings = [
        _prepared(spark, landing, places, watcher)
        for landing in config.landings(schema_json=_schema_json(config))
    ]
    repaired: dict[str, Any] = {}
    if config.widens:
        watcher.begin("widen columns")
        names = [name for one in landings for name in widen(spark, one, places.s3)]
        repaired["columns_widened"] = names
    if config.retries_dead_letters:
        watcher.begin("land dead letters again")
        retries = [
            call_on_executor(spark, partial(retry_dead_letters, one, places.s3)) for one in landings
        ]
        repaired["dead_letters_landed"] = sum(retries)
    watcher.begin(f"land {', '.join(one.table for one in landings)}")
    tallies: list[Tally] = []
    if config.is_stream:
        tallies = [Tally(_started(spark, config, one, places)) for one in landings]
        follow(tallies, watcher, LandedCounts())
    else:
        for landing in landings:
            done = sum_of([one.total() for one in tallies])
            tallies.append(Tally(_started(spark, config, landing, places)))
            if not follow(tallies[-1:], watcher, done):
                break
    upkeep = (0, 0)
    if config.keeps_up_at_end:
        for landing in landings:
            found = call_on_executor(spark, partial(_keep_up, landing, places))
            upkeep = (upkeep[0] + found[0], upkeep[1] + found[1])
    return _report(landings, tallies, upkeep, repaired)


def _prepared(
    spark: SparkSession, landing: Landing, places: SourceOptions, watcher: Watcher
) -> Landing:
    """The table is there then; and the schema is in the landing."""
    if call_on_executor(spark, partial(_prepare, landing, places, True)):
        return landing
    watcher.begin(f"look at {', '.join(landing.names)}")
    landing = msgspec.structs.replace(landing, schema_json=_sampled(spark, landing, places))
    call_on_executor(spark, partial(_prepare, landing, places, False))
    return landing


def _sampled(spark: SparkSession, landing: Landing, places: SourceOptions) -> str:
    options = {
        name: text
        for name, text in places.feed.items()
        if name not in ("maxRowsPerTrigger", "maxBytesPerTrigger")
    }
    options |= {
        "partitionBytes": str(SAMPLE_SPLIT_BYTES),
        "minPartitions": str(SAMPLE_SPLITS),
        "failOnDataLoss": "false",
        "pinSeconds": "0",
    }
    chosen = landing_options(landing, SourceOptions(options, places.s3))
    shape = Shape()
    for row in spark.read.format(NAME).options(**chosen).load().select("files").collect():
        shape.add(msgspec.json.decode(bytes(row[0]), type=Shape))
    taken = taken_names(landing, MessageRows(landing))
    fields = [one for one in shape.struct().fields if one.name.lower() not in taken]
    return StructType(fields).json() if fields else ""


def _started(
    spark: SparkSession, config: LandConfig, landing: Landing, places: SourceOptions
) -> StreamingQuery:
    from pyspark.sql import functions

    # Spark looks for the sink in the thread's active session, which a new thread has not: this is
    # what makes it so, without Spark's own objects.
    spark.createDataFrame([], "nothing int")
    options = landing_options(landing, places)
    frame = spark.readStream.format(NAME).options(**options).load()
    frame = frame.observe(
        METRICS,
        *(functions.sum(name).alias(name) for name in LandedCounts._fields),
    )
    writer = frame.writeStream.format(NAME).options(**options)
    writer = writer.option("checkpointLocation", config.checkpoint_of(landing))
    writer = writer.queryName(f"land {landing.table}")
    if config.is_stream:
        interval_ms = milliseconds(config.interval_s)
        return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()
    return writer.trigger(availableNow=True).start()


def _feed_options(config: LandConfig) -> dict[str, str]:
    options = {
        "startingOffsets": config.starting_offsets,
        "startingTimestamp": config.starting_timestamp,
        "failOnDataLoss": str(config.fails_on_loss).lower(),
        "partitionBytes": str(config.task_bytes),
        "maxBytesPerTrigger": str(config.batch_bytes_max),
        "maxRowsPerTrigger": str(config.batch_rows_max or ""),
    }
    return backend_options(config.source) | {name: text for name, text in options.items() if text}


def _schema_json(config: LandConfig) -> str:
    if not config.schema:
        return ""
    given = StructType.fromDDL(config.schema)
    assert isinstance(given, StructType), "DDL has columns"
    schema = as_table_schema(given)
    check_decodable(schema)
    return schema.json()


def _report(
    landings: list[Landing],
    tallies: list[Tally],
    upkeep: tuple[int, int],
    repaired: dict[str, Any],
) -> Report:
    total = sum_of([one.total() for one in tallies])
    facts: dict[str, Any] = {
        "tables": [one.table for one in landings],
        "rows": total.rows,
        "rescued": total.rescued,
        "dead_letters": total.dead_letters,
        "batches": sum(len(one.batches) for one in tallies),
        "files_optimized": upkeep[0],
        "files_vacuumed": upkeep[1],
        **repaired,
    }
    lines = [
        f"{landing.table}: {one.total().rows} rows ({one.total().rescued} with rescued fields), "
        f"{one.total().dead_letters} dead letters"
        for landing, one in zip(landings, tallies, strict=False)
    ]
    return Report(
        job="land",
        row_count=total.rows,
        size_bytes=total.size_bytes,
        facts=facts,
        lines=tuple(lines),
    )


# These run in a process of Spark's.


def _prepare(landing: Landing, places: SourceOptions, is_first: bool) -> bool:
    """Make the table, or look whether it takes such rows; False if a sample is needed first."""
    if landing.creates_bucket:
        ensure_buckets(landing, places.s3)
    messages = MessageRows(landing)
    rows, _ = targets(landing, places, messages)
    is_inferred = landing.values == "json" and not landing.schema_json
    if is_inferred and is_first and rows.schema() is None:
        return False
    rows.agree(first_schema(landing, messages), is_given=is_first)
    return True


def _keep_up(landing: Landing, places: SourceOptions) -> tuple[int, int]:
    return keep_up(landing, targets(landing, places, MessageRows(landing)))
