"""Streams into a topic, on a real session: each row once, also after a worker was killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

from lakebed.base.errors import InputError
from lakebed.spark.registry import register
from lakebed.spark.sinks.settings import settings_of
from tests.http_api.live_api import open_api
from tests.spark import sinks
from tests.spark.sinks import BY_CHANCE, DyingTopic, all_values, make_topic, staged_names, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    cloudpickle.register_pickle_by_value(sys.modules[sinks.__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(DyingTopic)
    return spark


def add_lines(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(exist_ok=True)
    # Renamed into place: a stream never sees half of it.
    (folder.parent / f"{folder.name}-{name}").write_text("\n".join(lines))
    (folder.parent / f"{folder.name}-{name}").rename(folder / name)


def run(
    session: SparkSession,
    lines: Path,
    *,
    source: str = "lakebed.topic",
    mode: str = "append",
    columns: tuple[str, ...] = ("value",),
    **options: object,
) -> None:
    """All there is, a file each micro-batch."""
    rows = session.readStream.option("maxFilesPerTrigger", 1).text(str(lines)).selectExpr(*columns)
    writer = rows.writeStream.format(source).outputMode(mode).trigger(availableNow=True)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    query = writer.start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.spark
def test_a_stream_goes_on_where_it_was(session: SparkSession, tmp_path: Path) -> None:
    root, lines = tmp_path / "root", tmp_path / "lines"
    add_lines(lines, "1", "a", "b")
    add_lines(lines, "2", "c")
    options: dict[str, Any] = {
        "path": root,
        "topic": "t",
        "checkpointLocation": tmp_path / "checkpoint",
    }
    run(session, lines, createTopic="true", partitions=2, **options)
    assert all_values(root, "t") == [b"a", b"b", b"c"]
    add_lines(lines, "3", "d", "e")
    run(session, lines, **options)
    assert all_values(root, "t") == [b"a", b"b", b"c", b"d", b"e"]
    assert staged_names(root) == []


@pytest.mark.spark
@pytest.mark.slow
def test_two_queries_into_one_topic_do_not_hide_one_another(
    session: SparkSession, tmp_path: Path
) -> None:
    root, lines = tmp_path / "root", tmp_path / "lines"
    make_topic(root, "t", 2)
    add_lines(lines, "1", "a", "b")
    options: dict[str, Any] = {"path": root, "topic": "t"}
    for name in ("one", "two"):
        run(session, lines, checkpointLocation=tmp_path / name, **options)
    assert all_values(root, "t") == [b"a", b"a", b"b", b"b"]
    for name in ("three", "four"):  # another checkpoint, and yet the same application
        run(session, lines, checkpointLocation=tmp_path / name, txnAppId="same", **options)
    assert all_values(root, "t") == [b"a"] * 3 + [b"b"] * 3


@pytest.mark.spark
@pytest.mark.parametrize("staged", [{}, {"stagingBucket": "stage"}])
def test_a_stream_through_an_endpoint(
    session: SparkSession, tmp_path: Path, staged: dict[str, Any]
) -> None:
    lines = tmp_path / "lines"
    add_lines(lines, "1", *map(str, range(50)))
    with open_api(tmp_path) as live_api:
        live_api.store.topics.create("t", partitions=3)
        run(
            session,
            lines,
            endpoint=f"http://127.0.0.1:{live_api.port}",
            topic="t",
            checkpointLocation=tmp_path / "checkpoint",
            **staged,
        )
        partitions = live_api.store.topic("t").partitions
        found = [one.value or b"" for each in partitions for one in each.scan_from(0)]
        left = [one.key for name in staged.values() for one in live_api.store.bucket(name).list()]
    assert sorted(found) == sorted(b"%d" % number for number in range(50))
    assert left == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "point",
    [
        "half",
        "done",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("staged", "decided", "committed")),
    ],
)
def test_a_commit_that_is_killed_is_repeated_without_harm(
    session: SparkSession, tmp_path: Path, point: str
) -> None:
    root, lines, mark = tmp_path / "root", tmp_path / "lines", tmp_path / "mark"
    make_topic(root, "t", 3)
    add_lines(lines, "1", *map(str, range(30)))
    mark.write_text("0")
    options: dict[str, Any] = {
        "path": root,
        "topic": "t",
        "checkpointLocation": tmp_path / "checkpoint",
    }
    dying: dict[str, Any] = {"source": "dying.topic", "killAt": point, "killMark": mark}
    dying["columns"] = ("value", BY_CHANCE)
    with pytest.raises(StreamingQueryException):
        run(session, lines, **dying, **options)
    assert not mark.exists()
    count = sum(map(len, values(root, "t")))
    if point == "half":
        assert 0 < count < 30
    else:
        assert count == (30 if point in ("committed", "done") else 0)
    add_lines(lines, "2", *map(str, range(30, 40)))
    run(session, lines, **dying, **options)
    assert all_values(root, "t") == sorted(b"%d" % number for number in range(40))
    assert staged_names(root) == []


@pytest.mark.spark
def test_a_stream_that_would_overwrite_is_refused(session: SparkSession, tmp_path: Path) -> None:
    root, lines = tmp_path / "root", tmp_path / "lines"
    make_topic(root, "t")
    add_lines(lines, "1", "a")
    counted = session.readStream.text(str(lines)).groupBy("value").count().select("value")
    writer = counted.writeStream.format("lakebed.topic").outputMode("complete")
    for name, value in {"path": root, "topic": "t", "checkpointLocation": tmp_path / "c"}.items():
        writer = writer.option(name, str(value))
    with pytest.raises(Exception, match="appended to, not overwritten"):
        writer.start().awaitTermination()
    assert values(root, "t") == [[]]


def test_a_version_of_a_stream_is_its_batch(tmp_path: Path) -> None:
    options = {"path": str(tmp_path), "topic": "t", "txnVersion": "1", "txnAppId": "a"}
    with pytest.raises(InputError, match="txnVersion is the batch's number"):
        settings_of(options, is_streaming=True)
