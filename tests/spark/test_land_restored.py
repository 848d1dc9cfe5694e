"""`land` after a restore, and with a checkpoint that is lost or old: the table decides."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from lakebed.kernels.disk import real_disk
from lakebed.spark.jobs.land import land
from lakebed.store.backup import create_backup, open_vault, restore
from lakebed.store.read_only import ReadOnlyStore
from tests.spark.lands import Lake, started_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.process]

JSON = ({"id": 1}, b"no JSON", {"id": 2})
MORE = (b"still none", {"id": 3})


def backed_up(root: Path, into: Path) -> Path:
    """The root of a new store, restored from a backup of this one."""
    with ReadOnlyStore(root) as store:
        vault = open_vault(str(into / "vault"), disk=store.disk, runner=store.runner)
        taken = create_backup(store, vault)
        restore(vault, taken.snapshot, str(into / "store"), disk=real_disk())
    return into


def landed(lake: Lake, topic: str, table_format: str) -> tuple[list[int], int]:
    """The ids of the table's rows, and how many dead letters there are."""
    if table_format == "delta":
        return [row["id"] for row in lake.rows(topic)], len(lake.dead_letters(topic))
    dead = lake.parquet_rows(f"{topic}_dead_letters")
    return [row["id"] for row in lake.parquet_rows(topic)], len(dead)


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_restored_store_lands_each_message_once(
    spark: SparkSession, tmp_path: Path, table_format: str
) -> None:
    with started_lake(tmp_path / "first") as lake:
        topic = lake.new_topic(partitions=2)
        lake.add(topic, *JSON)
        lake.add(topic, {"id": 10}, partition=1)
        config = lake.config(topic, values="json", table_format=table_format)
        assert land(spark, config).row_count == 3
        restored = backed_up(lake.root, tmp_path / "second")
    with started_lake(restored) as lake:
        lake.add(topic, *MORE)
        config = lake.config(topic, values="json", table_format=table_format)
        report = land(spark, config)
        assert (report.row_count, report.facts["dead_letters"]) == (1, 1)
        assert landed(lake, topic, table_format) == ([1, 2, 3, 10], 2)
        assert land(spark, config).row_count == 0


def test_a_restored_store_lands_each_record_of_a_log_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with started_lake(tmp_path / "first") as lake:
        log = lake.store.log("audit")
        log.flush(log.append_records([b'{"id": 1}', b"no JSON", b'{"id": 2}'])[-1])
        assert land(spark, lake.config(logs=("audit",), values="json")).row_count == 2
        restored = backed_up(lake.root, tmp_path / "second")
    with started_lake(restored) as lake:
        log = lake.store.log("audit")
        log.flush(log.append_record(b'{"id": 3}'))
        config = lake.config(logs=("audit",), values="json")
        report = land(spark, config)
        assert (report.row_count, report.facts["dead_letters"]) == (1, 0)
        assert landed(lake, "audit", "delta") == ([1, 2, 3], 1)
        assert land(spark, config).row_count == 0


def test_a_topic_that_was_created_again_is_landed_from_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    with started_lake(tmp_path) as lake:
        topic = lake.new_topic()
        lake.add(topic, {"id": 1}, {"id": 2})
        config = lake.config(topic, values="json")
        land(spark, config)
        lake.store.topics.delete(topic)
        lake.store.topics.create(topic, partitions=1)
        lake.add(topic, {"id": 3})
        shutil.rmtree(config.checkpoint_of(config.landings()[0]))
        assert land(spark, config).row_count == 1
        assert sorted(row["id"] for row in lake.rows(topic)) == [1, 2, 3]


def test_dead_letters_that_a_backup_has_without_their_rows_are_not_landed_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As a run leaves them that dies after it committed the dead letters."""
    with started_lake(tmp_path) as lake:
        topic = lake.new_topic()
        lake.add(topic, *JSON)
        config = lake.config(topic, values="json")
        land(spark, config)
        store = lake.place("lake/x").object_store()
        store.delete(lake.keys(f"tables/{topic}/"))
        shutil.rmtree(config.checkpoint_of(config.landings()[0]))
        lake.add(topic, *MORE)
        assert land(spark, config).row_count == 3
        assert [row["offset"] for row in lake.dead_letters(topic)] == [1, 3]


def test_a_table_older_than_its_checkpoint_is_not_left_with_a_gap(
    spark: SparkSession, tmp_path: Path
) -> None:
    with started_lake(tmp_path) as lake:
        topic = lake.new_topic()
        config = lake.config(topic, values="json")
        lake.add(topic, {"id": 1})
        land(spark, config)
        kept = set(lake.keys(f"tables/{topic}/"))
        lake.add(topic, {"id": 2})
        land(spark, config)
        store = lake.place("lake/x").object_store()
        store.delete([key for key in lake.keys(f"tables/{topic}/") if key not in kept])
        with pytest.raises(PySparkException, match="remove the checkpoint"):
            land(spark, config)
        shutil.rmtree(config.checkpoint_of(config.landings()[0]))
        assert land(spark, config).row_count == 1
        assert [row["id"] for row in lake.rows(topic)] == [1, 2]


def test_a_topic_shorter_than_its_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with started_lake(tmp_path / "first") as lake:
        topic = lake.new_topic()
        lake.add(topic, {"id": 1})
        older = backed_up(lake.root, tmp_path / "older")
        lake.add(topic, {"id": 2})
        config = lake.config(topic, values="json")
        land(spark, config)
        with started_lake(older) as restored:
            stale = restored.config(topic, values="json", s3=lake.s3)
            with pytest.raises(PySparkException, match="older backup"):
                land(spark, stale)
        assert [row["id"] for row in lake.rows(topic)] == [1, 2]
