"""Batch writes to a topic, on a real session."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakebed.base.errors import InputError, NotFound
from lakebed.host.store import Store
from lakebed.keratin.partitioner import partition_of
from lakebed.spark.registry import register
from lakebed.spark.sinks import encoder, staged_commit
from lakebed.spark.sinks.settings import settings_of
from lakebed.spark.sinks.staged_commit import HalfCommitted
from lakebed.spark.staging import Run
from lakebed.store.read_only import ReadOnlyStore
from tests.http_api.live_api import open_api
from tests.spark.sinks import all_values, make_topic, staged_names, values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def save(frame: DataFrame, mode: str = "append", **options: object) -> None:
    writer = frame.write.format("lakebed.topic").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


@pytest.mark.spark
def test_rows_become_messages(session: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    ddl = (
        "value binary, key string, partition int, timestamp timestamp, "
        "headers array<struct<name:string,value:binary>>"
    )
    rows = [
        (b"all", "k", 2, moment, [("a", b"1"), ("b", None)]),
        (None, "gone", None, None, None),
        (b"", "", 0, None, []),
    ]
    frame = session.createDataFrame(rows, ddl).coalesce(1)
    options: dict[str, Any] = {"path": tmp_path, "topic": "t", "partitions": 3}
    save(frame, compression="zstd", createTopic="true", **options)
    with ReadOnlyStore(tmp_path) as store:
        found = [
            (number, one.key, one.value, list(one.headers), one.timestamp_ms)
            for number, each in enumerate(store.topic("t").partitions)
            for one in each.scan_from(0)
        ]
    assert (2, b"k", b"all", [("a", b"1"), ("b", None)], int(moment.timestamp()) * 1000) in found
    assert (partition_of(b"gone", 3), b"gone", None, []) in [one[:4] for one in found]
    assert (0, b"", b"", []) in [one[:4] for one in found]
    assert len(found) == 3
    assert staged_names(tmp_path) == []


@pytest.mark.spark
def test_any_thread_of_the_program_may_write(session: SparkSession, tmp_path: Path) -> None:
    make_topic(tmp_path, "orders")
    frame = session.range(5).selectExpr("cast(id as string) as value")
    with ThreadPoolExecutor(1) as threads:
        threads.submit(save, frame, path=tmp_path, topic="orders").result()
        stream = threads.submit(_streamed, session, tmp_path).result()
    stream.awaitTermination()
    for topic in ("orders", "copies"):
        assert all_values(tmp_path, topic) == [b"%d" % number for number in range(5)]


def _streamed(session: SparkSession, root: Path) -> StreamingQuery:
    rows = session.readStream.format("lakebed.topic").options(path=str(root), topic="orders").load()
    options = {"topic": "copies", "createTopic": "true", "checkpointLocation": str(root / "at")}
    writer = rows.select("value").writeStream.format("lakebed.topic").trigger(availableNow=True)
    return writer.options(path=str(root), **options).start()


@pytest.mark.spark
def test_keys_go_where_an_embedded_program_puts_them(session: SparkSession, tmp_path: Path) -> None:
    keys = [b"key %d" % number for number in range(200)]
    make_topic(tmp_path, "t", 5)
    with Store.open(tmp_path) as store:  # the writer is another program: through its socket
        store.topic("t").append_keyed([(key, key) for key in keys])
        frame = session.createDataFrame([(key, key) for key in keys], "key binary, value binary")
        save(frame.repartition(2), path=tmp_path, topic="t", compression="lz4")
    for each in values(tmp_path, "t"):
        assert sorted(each[: len(each) // 2]) == sorted(each[len(each) // 2 :])  # type: ignore[type-var]
    assert all_values(tmp_path, "t") == sorted(keys * 2)


@pytest.mark.spark
def test_a_version_is_written_once_and_a_write_without_one_again(
    session: SparkSession, tmp_path: Path
) -> None:
    make_topic(tmp_path, "t", 2)
    frame = session.range(20).selectExpr("cast(id as string) value")
    for version in (7, 7, 6):
        save(frame, path=tmp_path, topic="t", txnAppId="nightly", txnVersion=version)
    assert len(all_values(tmp_path, "t")) == 20
    save(frame, path=tmp_path, topic="t", txnAppId="nightly", txnVersion=8)
    save(frame, path=tmp_path, topic="t")
    save(frame, path=tmp_path, topic="t")
    assert all_values(tmp_path, "t") == sorted(
        b"%d" % number for number in range(20) for _ in "1234"
    )
    assert staged_names(tmp_path) == []


@pytest.mark.spark
@pytest.mark.parametrize("staged", [{}, {"stagingBucket": "stage"}])
def test_an_endpoint_takes_batches_inline_and_from_a_bucket(
    session: SparkSession, tmp_path: Path, staged: dict[str, str]
) -> None:
    frame = session.range(0, 1000, 1, 2).selectExpr("cast(id as string) value")
    with open_api(tmp_path) as live_api:
        options = {
            "endpoint": f"http://127.0.0.1:{live_api.port}",
            "accessKey": "a",
            "secretKey": "b",
        }
        for version in (1, 1):
            save(
                frame,
                topic="t",
                createTopic="true",
                partitions=3,
                txnAppId="a",
                txnVersion=version,
                **options,
                **staged,
            )
        topic = live_api.store.topic("t")
        found = [[one.value or b"" for one in each.scan_from(0)] for each in topic.partitions]
        left = [one.key for name in staged.values() for one in live_api.store.bucket(name).list()]
    assert sorted(one for each in found for one in each) == sorted(b"%d" % n for n in range(1000))
    assert min(map(len, found)) > 250
    assert left == []


@pytest.mark.spark
def test_what_cannot_be_written_is_told_before_a_task_starts(
    session: SparkSession, tmp_path: Path
) -> None:
    make_topic(tmp_path, "t", 2)
    frame = session.range(2).selectExpr("cast(id as string) value", "id")
    good = frame.select("value")
    cases: list[tuple[DataFrame, str, dict[str, object], str]] = [
        (frame, "append", {"topic": "t"}, "the column 'id' cannot be written"),
        (good, "overwrite", {"topic": "t"}, "cannot be overwritten"),
        (good, "append", {"topic": "none"}, "has no topic none; set createTopic"),
        (good, "append", {"topic": "t", "compresion": "lz4"}, "did you mean compression"),
    ]
    for rows, mode, options, message in cases:
        with pytest.raises(Exception, match=message):
            save(rows, mode, path=tmp_path, **options)
    assert values(tmp_path, "t") == [[], []]


@pytest.mark.spark
def test_a_task_that_fails_leaves_nothing(session: SparkSession, tmp_path: Path) -> None:
    make_topic(tmp_path, "t", 2)
    # One task: another one that is still at work when Spark gives up would leave what it stages.
    frame = session.range(0, 10, 1, 1).selectExpr(
        "cast(id as string) value", "cast(if(id = 9, 5, 0) as int) partition"
    )
    with pytest.raises(
        Exception, match=r"partition 5 does not exist \(the topic has 2 partitions\)"
    ):
        save(frame, path=tmp_path, topic="t")
    assert values(tmp_path, "t") == [[], []]
    assert staged_names(tmp_path) == []


# Without a session: the parts that Spark calls.


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    make_topic(tmp_path, "t", 2)
    return settings_of({"path": str(tmp_path), "topic": "t"}, is_streaming=False)


def rows(*found: str) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"value": list(found)})])


RUN = Run("t", "application", 3)


def stage(settings: Any, *found: str, run: Run = RUN) -> staged_commit.StagedRows:
    return staged_commit.stage(settings, {"value": 0}, rows(*found), run)


def test_a_task_that_ran_twice_is_written_once(settings: Any, tmp_path: Path) -> None:
    first, second = stage(settings, "a", "b"), stage(settings, "a", "b")
    assert first.batches != second.batches
    staged_commit.commit(settings, [second, None])
    assert all_values(tmp_path, "t") == [b"a", b"b"]
    assert staged_names(tmp_path) == []


def test_a_task_that_fails_half_way_takes_its_batches_with_it(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "GATHERED_ROWS", 0)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows("a")
        yield from rows("b")
        raise RuntimeError("no more rows")

    with pytest.raises(RuntimeError, match="no more rows"):
        staged_commit.stage(settings, {"value": 0}, failing(), RUN)
    assert staged_names(tmp_path) == []


def test_a_commit_that_was_decided_is_completed_with_what_was_decided(
    settings: Any, tmp_path: Path
) -> None:
    decided = stage(settings, "a", "b", "c")
    with settings.staging() as staging:
        batches = staging.decide(RUN, decided.batches)
    # The store has one partition of it, as if the other could not be written.
    with Store.open(tmp_path) as store:
        store.topic("t").commit_batches("application", 3, {0: batches[0]})
    staged_commit.commit(settings, [stage(settings, "c", "a", "b")])
    assert all_values(tmp_path, "t") == [b"a", b"b", b"c"]
    assert staged_names(tmp_path) == []


def test_what_nobody_decided_is_completed_with_the_same_rows_in_any_order(tmp_path: Path) -> None:
    letters = "abcdefghijklmnop"
    with open_api(tmp_path) as live_api:
        live_api.store.topics.create("t", partitions=3)
        options = {"endpoint": f"http://127.0.0.1:{live_api.port}", "topic": "t"}
        settings = settings_of(options, is_streaming=False)
        first = stage(settings, *letters)
        topic = live_api.store.topic("t")
        topic.commit_batches("application", 3, {1: first.batches[1]})
        staged_commit.commit(settings, [stage(settings, *reversed(letters))])
        found = [one.value or b"" for each in topic.partitions for one in each.scan_from(0)]
    assert sorted(found) == [letter.encode() for letter in letters]


def test_the_tasks_rows_stand_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    make_topic(tmp_path, "t")
    settings = settings_of({"path": str(tmp_path), "topic": "t"}, is_streaming=False)
    staged = [replace(stage(settings, text), task=task) for task, text in enumerate("abc")]
    staged_commit.commit(settings, [staged[2], None, staged[0], staged[1]])
    assert values(tmp_path, "t") == [[b"a", b"b", b"c"]]


def test_an_abort_leaves_what_was_decided(settings: Any, tmp_path: Path) -> None:
    decided, other = stage(settings, "a"), stage(settings, "b")
    with settings.staging() as staging:
        staging.decide(RUN, decided.batches)
    staged_commit.abort(settings, [decided, other, None])
    staged_commit.commit(settings, [stage(settings, "c")])
    assert all_values(tmp_path, "t") == [b"a"]


def test_a_decision_whose_batches_are_gone_is_made_again(settings: Any, tmp_path: Path) -> None:
    decided = stage(settings, "a", "b")
    with settings.staging() as staging:
        staging.decide(RUN, decided.batches)
    for batches in decided.batches.values():
        for one in batches:
            Path(one.path).unlink()  # type: ignore[union-attr]
    staged_commit.commit(settings, [stage(settings, "a", "b")])
    assert all_values(tmp_path, "t") == [b"a", b"b"]
    gone = stage(settings, "c", run=RUN._replace(version=4))
    Path(next(iter(gone.batches.values()))[0].path).unlink()  # type: ignore[union-attr]
    with pytest.raises(NotFound):
        staged_commit.commit(settings, [gone])


@pytest.mark.parametrize("is_own", [True, False])
def test_a_decision_that_the_store_refuses_does_not_block_those_who_repeat_it(
    settings: Any, tmp_path: Path, is_own: bool
) -> None:
    refused = stage(settings, "a", "b")
    for batches in refused.batches.values():
        Path(batches[0].path).write_bytes(b"no batch")  # type: ignore[union-attr]
    if is_own:
        with pytest.raises(InputError, match="not a valid record batch"):
            staged_commit.commit(settings, [refused])
    else:
        with settings.staging() as staging:
            staging.decide(RUN, refused.batches)
    staged_commit.commit(settings, [stage(settings, "c", "d")])
    assert all_values(tmp_path, "t") == [b"c", b"d"]
    assert staged_names(tmp_path) == []


@pytest.mark.parametrize("is_served", [True, False])
def test_a_half_committed_version_whose_rest_is_gone_is_told_and_not_mixed(
    settings: Any, tmp_path: Path, is_served: bool
) -> None:
    decided = stage(settings, "a", "b", "c")
    with settings.staging() as staging:
        staging.decide(RUN, decided.batches)
    gone = Path(decided.batches[1][0].path)  # type: ignore[union-attr]
    kept = gone.read_bytes()
    with Store.open(tmp_path) as store:
        store.topic("t").commit_batches("application", 3, {0: decided.batches[0]})
    gone.unlink()
    before = all_values(tmp_path, "t")
    with contextlib.ExitStack() as stack:
        if is_served:
            stack.enter_context(Store.open(tmp_path))
        for _ in range(2):
            other = stage(settings, "c", "a", "b")
            with pytest.raises(HalfCommitted, match=r"version 3 .* in 1 of 2 partitions.*no such"):
                staged_commit.commit(settings, [other])
            staged_commit.abort(settings, [other])
    assert all_values(tmp_path, "t") == before
    gone.write_bytes(kept)
    staged_commit.commit(settings, [stage(settings, "x", "y", "z")])
    assert all_values(tmp_path, "t") == [b"a", b"b", b"c"]


def test_a_repetition_with_rows_for_other_partitions_adds_nothing(
    settings: Any, tmp_path: Path
) -> None:
    staged_commit.commit(settings, [stage(settings, "a")])
    staged_commit.commit(settings, [stage(settings, "x", "y", "z")])
    assert all_values(tmp_path, "t") == [b"a"]


def test_messages_of_two_commits_are_refused(settings: Any, tmp_path: Path) -> None:
    other = stage(settings, "b", run=RUN._replace(version=4))
    with pytest.raises(InputError, match="to several commits"):
        staged_commit.commit(settings, [stage(settings, "a"), other])
    assert all_values(tmp_path, "t") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set the option path or endpoint"),
        ({"path": "."}, "the option topic is missing"),
        (
            {"path": ".", "topic": "t", "stagingBucket": "b"},
            "only be used with the option endpoint",
        ),
        (
            {"endpoint": "http://h:1", "topic": "t", "stagingPath": "."},
            "only be used with the option path",
        ),
        ({"path": ".", "topic": "t", "txnAppId": "a"}, "set both options txnAppId and txnVersion"),
        (
            {"path": ".", "topic": "t", "txnVersion": "1"},
            "set both options txnAppId and txnVersion",
        ),
        ({"path": ".", "topic": "t", "txnVersion": "x", "txnAppId": "a"}, "a whole number"),
        ({"path": ".", "topic": "t", "compression": "best"}, "one of none, gzip, snappy"),
        ({"path": ".", "topic": "t", "batchBytes": "1GiB"}, "at most"),
        ({"path": ".", "topic": "t", "partitions": "3"}, "needs the option createTopic"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of(options, is_streaming=False)


def test_a_topic_of_another_number_of_partitions_is_refused(tmp_path: Path) -> None:
    make_topic(tmp_path, "t", 2)
    options = {"path": str(tmp_path), "topic": "t", "createTopic": "true", "partitions": "3"}
    with pytest.raises(InputError, match="has 2 partitions, not 3"):
        settings_of(options, is_streaming=False)
