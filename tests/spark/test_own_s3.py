"""The S3 of a store that no node serves: for a run, on loopback, with keys of its own."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from lakebed.base.errors import BadConfig, InputError, Locked, NotFound
from lakebed.host.store import Store
from lakebed.node.own_s3 import own_s3
from lakebed.spark.options import Options
from lakebed.spark.own_s3 import FILE_NAME, find_own_s3
from lakebed.spark.tables.location import PLACE_OPTIONS, TableLocation, table_location
from lakebed.spark.tables.snapshot import load_table
from tests.spark.table_locations import append, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = StructType().add("n", LongType())
ROWS = pa.record_batch({"n": [1, 2]})


def place_of(**options: object) -> TableLocation:
    return table_location(Options("lakebed.table", options, known=PLACE_OPTIONS))


def test_a_table_is_written_and_read_with_nothing_but_the_root(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with own_s3(root) as own:
        own.ensure_bucket("lake")
        own.ensure_bucket("lake")
        place = place_of(path=root, table="lake/t")
        assert place == place_of(table="lake/t", **own.options())
        append(place, ROWS, SCHEMA)
        first = place.secret_key
    with own_s3(root):
        place = place_of(path=root, table="lake/t")
        assert place.secret_key != first
        assert [row["n"] for row in rows_of(place)] == [1, 2]


def test_the_keys_are_for_their_owner_and_only_while_it_is_served(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with own_s3(tmp_path) as own:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert own.published is not None
        assert own.published.secret_key not in repr(own.published)
        assert own.store.keys.list() == []
        place = place_of(path=tmp_path, table="lake/t")
        own.close()
        own.close()
    assert not path.exists()
    with pytest.raises(NotFound, match="no program that serves the S3"):
        place_of(path=tmp_path, table="lake/t")
    with own_s3(tmp_path) as again:
        again.ensure_bucket("lake")
        assert again.published is not None
        old = TableLocation(again.published.url, place.access_key, place.secret_key, "lake", "t")
        with pytest.raises(InputError, match="refused the access key"):
            load_table(old)


def test_a_store_that_is_open_elsewhere_is_told(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        with pytest.raises(Locked, match="s3Endpoint"), own_s3(tmp_path):
            pass
        with pytest.raises(NotFound, match=rf"process {os.getpid()}.*s3Endpoint"):
            find_own_s3(str(tmp_path))


def test_a_process_of_the_same_number_is_told_by_when_it_opened_the_store(tmp_path: Path) -> None:
    with own_s3(tmp_path):
        left = (tmp_path / FILE_NAME).read_bytes()
        opened_ms = find_own_s3(str(tmp_path)).opened_ms
    (tmp_path / FILE_NAME).write_bytes(left)
    with Store.open(tmp_path) as store:
        assert store.opened_ms != opened_ms
        with pytest.raises(NotFound, match=f"process {os.getpid()}"):
            find_own_s3(str(tmp_path))


@pytest.mark.process
def test_what_a_killed_run_left_is_not_taken_for_a_server(tmp_path: Path) -> None:
    program = (
        "import os, sys; from lakebed.node.own_s3 import own_s3\n"
        "own_s3(sys.argv[1]).__enter__(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert (tmp_path / FILE_NAME).exists()
    with pytest.raises(NotFound, match="no program that serves"):
        find_own_s3(str(tmp_path))
    with Store.open(tmp_path), pytest.raises(NotFound, match="did not publish an S3 endpoint"):
        find_own_s3(str(tmp_path))
    with own_s3(tmp_path):
        assert find_own_s3(str(tmp_path)).process_id == os.getpid()


def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKEBED_ACCESS_KEY", "LAKEBED_SECRET_KEY", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    url = "http://127.0.0.1:9000"
    for options, problem in (
        ({}, "set the option path or s3Endpoint"),
        ({"path": tmp_path, "s3Endpoint": url}, "only one of"),
        ({"path": tmp_path, "accessKey": "a"}, "can only be used with s3Endpoint, not with path"),
        ({"s3Endpoint": "127.0.0.1:9000"}, "http or https URL without a path"),
        ({"s3Endpoint": f"{url}/x"}, "http or https URL without a path"),
        ({"s3Endpoint": url, "accessKey": "a"}, "set both options accessKey and secretKey"),
        ({"s3Endpoint": url}, "needs credentials: set the options accessKey and secretKey"),
    ):
        with pytest.raises(BadConfig, match=problem):
            place_of(table="lake/t", **options)


def test_keys_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", "one")
    monkeypatch.setenv("LAKEBED_SECRET_KEY", "a secret")
    place = place_of(s3Endpoint="http://127.0.0.1:9000/", table="lake/t")
    assert (place.access_key, place.secret_key) == ("one", "a secret")
    assert place.endpoint == "http://127.0.0.1:9000"


@pytest.mark.spark
def test_a_session_finds_it_by_the_root(spark: SparkSession, tmp_path: Path) -> None:
    from lakebed.spark.sources.table import TableSource

    spark.dataSource.register(TableSource)
    options = {"path": str(tmp_path), "table": "lake/t"}
    with own_s3(tmp_path):
        writer = spark.range(10).write.format("lakebed.table").options(**options, createBucket=True)
        writer.mode("append").save()
        assert spark.read.format("lakebed.table").options(**options).load().count() == 10
