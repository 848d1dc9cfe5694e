"""The jobs on Spark: landing a topic as a Delta table, and verifying a store.

Beside `land` stands what Spark's own Parquet does with the same messages, read from Parquet files
and written to the local disk: no exactly once, no table, no S3. Verifying is compared with the same
check in one process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

from bench.aof_stores import scratch_folder
from bench.row import Contestant, Row, Run
from bench.spark import FULL, Work, fill_log, fill_topic, session
from lakebed.host.store import Store

OURS = "lakebed land"
PARQUET = "Spark writes Parquet"
ONE_PROCESS = "one process"
SCHEMA = "id BIGINT, state STRING, amount BIGINT, note STRING"
OBJECTS = 8


def rows(work: Work = FULL) -> Iterator[Row]:
    for kind in ("raw", "json"):
        yield Row(
            name=f"spark/land a topic/{kind} values of {work.value_bytes} B",
            unit="rows",
            baseline=PARQUET,
            note="into a new Delta table through S3; the other: Parquet to Parquet, local files",
            contestants=[
                Contestant(OURS, partial(_land, work, kind)),
                Contestant(PARQUET, partial(_write_parquet, work, kind)),
            ],
        )
    yield Row(
        name="spark/verify a store",
        unit="bytes",
        baseline=ONE_PROCESS,
        note="a topic, a log and objects",
        contestants=[
            Contestant("lakebed verify on Spark", partial(_verify, work, True)),
            Contestant(ONE_PROCESS, partial(_verify, work, False)),
        ],
    )


@contextmanager
def _land(work: Work, kind: str) -> Iterator[Run]:
    from lakebed.node.own_s3 import own_s3
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.land import LandConfig, land

    spark = session()
    with scratch_folder(work.scratch) as root:
        fill_topic(root, work=work)
        numbers = count()
        with own_s3(root) as own:

            def run() -> float:
                config = LandConfig(
                    source=Backend(path=str(root)),
                    topics=("events",),
                    table=f"lake/events-{next(numbers)}",
                    s3=own.options(),
                    values="json" if kind == "json" else "raw",
                    schema=SCHEMA if kind == "json" else "",
                )
                landed = land(spark, config).row_count
                assert landed == work.row_count, f"landed {landed}"
                return landed

            yield run


@contextmanager
def _write_parquet(work: Work, kind: str) -> Iterator[Run]:
    spark = session()
    with scratch_folder(work.scratch) as root:
        fill_topic(root, work=work)
        place = str(root.with_name("parquet"))
        reader = spark.read.format("lakebed.topic").options(path=str(root), topic="events")
        reader.load().write.parquet(place)
        frame = spark.read.parquet(place)
        if kind == "json":
            fields = f"from_json(cast(value as string), '{SCHEMA}') as fields"
            frame = frame.selectExpr("topic", "partition", "offset", "timestamp", "key", fields)
            frame = frame.select("topic", "partition", "offset", "timestamp", "key", "fields.*")

        def run() -> float:
            frame.write.mode("overwrite").parquet(str(root.with_name("written")))
            return work.row_count

        yield run


@contextmanager
def _verify(work: Work, is_spark: bool) -> Iterator[Run]:
    from lakebed.spark.backends import Backend
    from lakebed.spark.jobs.verify import check
    from lakebed.store.read_only import ReadOnlyStore
    from lakebed.store.store_check import plan_store, verify_store

    with scratch_folder(work.scratch) as root:
        _fill(root, work)
        with ReadOnlyStore(root) as store:
            size_bytes = sum(plan_store(store).sizes)

        def in_one_process() -> float:
            with ReadOnlyStore(root) as store:
                assert verify_store(store).is_good
            return size_bytes

        def on_spark() -> float:
            assert check(session(), Backend(path=str(root))).report.is_good
            return size_bytes

        yield on_spark if is_spark else in_one_process


def _fill(root: Path, work: Work) -> None:
    fill_topic(root, work=work)
    fill_log(root, work=work)
    with Store.open(root, serves=False) as store:
        bucket = store.bucket("photos")
        for number in range(OBJECTS):
            bucket.put(f"photo-{number}", b"%d" % number * work.object_bytes)
