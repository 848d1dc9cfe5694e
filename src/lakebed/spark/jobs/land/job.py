"""The job `land`: runs a streaming query for each table, waits for the queries, and maintains
the tables.
"""

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
_NO_WATCHER: Final = NullWatcher()


def land(spark: SparkSession, config: LandConfig, watcher: Watcher = _NO_WATCHER) -> Report:
    """Copies topics or logs into tables until everything that exists now is landed.

    The tables are landed one after another. If the configuration asks for a stream, the queries of
    all tables run at the same time, until they are stopped.
    """
    spark.dataSource.register(LandingSource)
    s3 = dict(config.s3)
    landings: list[Landing] = []
    places_of: dict[str, SourceOptions] = {}  # by table
    for landing in config.landings(schema_json=_schema_json(config)):
        places = SourceOptions(feed=_feed_options(config, landing), s3=s3)
        places_of[landing.table] = places
        landings.append(_prepared(spark, landing, places, watcher))
    repaired: dict[str, Any] = {}
    if config.widens:
        watcher.begin("widen columns")
        names = [name for landing in landings for name in widen(spark, landing, s3)]
        repaired["columns_widened"] = names
    if config.retries_dead_letters:
        watcher.begin("retry dead letters")
        retries = [
            call_on_executor(spark, partial(retry_dead_letters, landing, s3))
            for landing in landings
        ]
        repaired["dead_letters_landed"] = sum(retries)
    watcher.begin(f"land {', '.join(landing.table for landing in landings)}")
    tallies: list[Tally] = []
    if config.is_stream:
        tallies = [
            Tally(_started(spark, config, landing, places_of[landing.table]))
            for landing in landings
        ]
        follow(tallies, watcher, LandedCounts())
    else:
        for landing in landings:
            done = sum_of([tally.total() for tally in tallies])
            tallies.append(Tally(_started(spark, config, landing, places_of[landing.table])))
            if not follow(tallies[-1:], watcher, done):
                break
    upkeep = (0, 0)
    if config.keeps_up_at_end:
        for landing in landings:
            places = places_of[landing.table]
            counts = call_on_executor(spark, partial(_keep_up, landing, places))
            upkeep = (upkeep[0] + counts[0], upkeep[1] + counts[1])
    return _report(landings, tallies, upkeep, repaired)


def _prepared(
    spark: SparkSession, landing: Landing, places: SourceOptions, watcher: Watcher
) -> Landing:
    """Creates the table, or adds missing columns to an existing table.

    Returns the landing. If the schema of a new table had to be inferred from a sample, the returned
    landing has that schema.
    """
    if call_on_executor(spark, partial(_prepare, landing, places, True)):
        return landing
    watcher.begin(f"sample {', '.join(landing.names)}")
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
    reserved = taken_names(landing, MessageRows(landing))
    fields = [field for field in shape.struct().fields if field.name.lower() not in reserved]
    return StructType(fields).json() if fields else ""


def _started(
    spark: SparkSession, config: LandConfig, landing: Landing, places: SourceOptions
) -> StreamingQuery:
    from pyspark.sql import functions

    # Spark looks up the sink in the thread's active session. A new thread has none; creating a
    # frame sets it, also for Spark Connect.
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


def _feed_options(config: LandConfig, landing: Landing) -> dict[str, str]:
    options = {
        "startingOffsets": config.starting_offsets_of(landing),
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
    declared = StructType.fromDDL(config.schema)
    assert isinstance(declared, StructType), "DDL describes columns"
    schema = as_table_schema(declared)
    check_decodable(schema)
    return schema.json()


def _report(
    landings: list[Landing],
    tallies: list[Tally],
    upkeep: tuple[int, int],
    repaired: dict[str, Any],
) -> Report:
    total = sum_of([tally.total() for tally in tallies])
    facts: dict[str, Any] = {
        "tables": [tally.table for tally in landings],
        "rows": total.rows,
        "rescued": total.rescued,
        "dead_letters": total.dead_letters,
        "batches": sum(len(tally.batches) for tally in tallies),
        "files_optimized": upkeep[0],
        "files_vacuumed": upkeep[1],
        **repaired,
    }
    lines = [
        f"{landing.table}: {tally.total().rows} rows "
        f"({tally.total().rescued} with rescued fields), "
        f"{tally.total().dead_letters} dead letters"
        for landing, tally in zip(landings, tallies, strict=False)
    ]
    return Report(
        job="land",
        row_count=total.rows,
        size_bytes=total.size_bytes,
        facts=facts,
        lines=tuple(lines),
    )


# These functions run on an executor.


def _prepare(landing: Landing, places: SourceOptions, is_first: bool) -> bool:
    """Creates the table, or adds missing columns to an existing table.

    Returns False, and creates no table, if the schema of a new table must be inferred from a sample
    first. `is_first` is True in the first call, before a sample was taken.
    """
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
