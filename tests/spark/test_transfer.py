"""Topics to Parquet files and back, on a real session."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from lakebed.base.errors import InputError
from lakebed.node.own_s3 import own_s3
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.parquet_files import FilesLocation
from lakebed.spark.jobs.publication import Publication
from lakebed.spark.jobs.span import Span
from lakebed.spark.jobs.transfer import export_topic, import_topic
from lakebed.spark.options import Options
from lakebed.spark.tables.location import PLACE_OPTIONS, table_location
from tests.spark.messages import FIRST_MS, Told, fill_special, told
from tests.spark.sinks import make_topic
from tests.spark.watchers import KeepingWatcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 500


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return Backend(path=str(tmp_path / "root"))


@pytest.mark.spark
def test_what_goes_out_comes_in_as_it_was(
    spark: SparkSession, backend: Backend, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    fill_special(root, "orders", partitions=3, count=COUNT)
    files, watcher = FilesLocation(folder=str(tmp_path / "out")), KeepingWatcher()
    report = export_topic(spark, backend, "orders", files, file_bytes=40_000, watcher=watcher)
    assert report.row_count == 3 * COUNT
    names = sorted(one.name for one in (tmp_path / "out").iterdir())
    assert names[0] == "_SUCCESS"
    assert names[1:] == [f"part-{number:05d}.parquet" for number in range(len(names) - 1)]
    assert len(names) > 3
    assert report.facts["files"] == len(names) - 1
    assert watcher.advances[-1][0] == 3 * COUNT
    check_files(tmp_path / "out")
    # As anybody reads them, Spark's own reader too.
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3 * COUNT
    to = Publication(
        backend=backend, topic="again", creates_topic=True, partitions=3, keeps_partitions=True
    )
    back = import_topic(spark, files, to)
    assert (back.row_count, back.facts["files"]) == (3 * COUNT, report.facts["files"])
    assert told(root, "again") == told(root, "orders")


def check_files(folder: Path) -> None:
    """Each row with all its columns, and of a partition in order."""
    table = parquet.read_table(folder)
    assert table.schema.names == [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]
    rows = table.select(["partition", "offset"]).to_pylist()
    places = [(row["partition"], row["offset"]) for row in rows]
    assert all(one < other for one, other in pairwise(places))
    assert table["topic"].unique().to_pylist() == ["orders"]


@pytest.mark.spark
def test_a_bucket_holds_the_files_and_a_name_lets_them_in_once(
    spark: SparkSession, backend: Backend, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    fill_special(root, "orders", partitions=1, count=50)
    make_topic(root, "again")
    with own_s3(root) as own:
        own.ensure_bucket("backup")
        options = Options("test", own.options() | {"table": "backup/o"}, known=PLACE_OPTIONS)
        files = FilesLocation(prefix=table_location(options))
        span = Span(start={None: 10})
        assert export_topic(spark, backend, "orders", files, span=span).row_count == 40
        keys = [one.path for one in files.list_files()]
        assert keys == ["backup/o/_SUCCESS", "backup/o/part-00000.parquet"]
        # Once more, with less: what was there is gone.
        span = Span(start={None: 20})
        export_topic(spark, backend, "orders", files, span=span, overwrite=True, compression="none")
        to = Publication(backend=backend, topic="again", name="restore")
        assert import_topic(spark, files, to).row_count == 30
        again = import_topic(spark, files, to)
        assert (again.row_count, again.facts["done_before"]) == (0, True)
    assert told(root, "again")[0] == told(root, "orders")[0][20:]


@pytest.mark.spark
def test_files_of_others_come_in_by_their_names(
    spark: SparkSession, backend: Backend, tmp_path: Path
) -> None:
    """A value is enough; text is bytes, and times are of any kind."""
    folder = tmp_path / "in"
    (folder / "2026").mkdir(parents=True)
    make_topic(tmp_path / "root", "t")
    stamps = pa.array([FIRST_MS * 1_000_000 + 5, None], pa.timestamp("ns"))
    for name, texts in (("b.parquet", ["3", "4"]), ("2026/a.parquet", ["1", "2"])):
        table = pa.table({"value": pa.array(texts, pa.large_string()), "timestamp": stamps})
        parquet.write_table(table, folder / name)
    (folder / "notes.txt").write_text("not a Parquet file")
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log" / "0.parquet").write_bytes(b"of somebody else")
    report = import_topic(
        spark, FilesLocation(folder=str(folder)), Publication(backend=backend, topic="t")
    )
    found = told(tmp_path / "root", "t")[0]
    assert [one.value for one in found] == [b"1", b"2", b"3", b"4"]
    assert found[0] == Told(FIRST_MS, None, b"1", ())
    assert found[1].timestamp_ms > FIRST_MS, "without a time it is now"
    assert report.facts["files"] == 2


def test_partitions_can_be_kept_only_if_they_are_there(backend: Backend, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"value": ["1"]}), tmp_path / "one.parquet")
    make_topic(tmp_path / "root", "t")
    nobody: SparkSession = None  # type: ignore[assignment]
    to = Publication(backend=backend, topic="t", keeps_partitions=True)
    with pytest.raises(InputError, match="no column 'partition'"):
        import_topic(nobody, FilesLocation(folder=str(tmp_path / "one.parquet")), to)
    fill_special(tmp_path / "root", "orders", partitions=1, count=1)
    with pytest.raises(InputError, match="compression of an export must be one of"):
        export_topic(
            nobody, backend, "orders", FilesLocation(folder=str(tmp_path / "x")), compression="rar"
        )
    assert not (tmp_path / "x").exists()
