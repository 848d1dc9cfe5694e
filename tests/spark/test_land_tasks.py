"""What the tasks and the commits of `land` do with tables, without a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from lakebed.base.clock import NS_PER_S, SystemClock
from lakebed.base.errors import InputError
from lakebed.spark.jobs.land.config import Landing
from lakebed.spark.jobs.land.data_source import LandedFiles, LandingWriter, SourceOptions
from lakebed.spark.jobs.land.parquet_target import ParquetTarget
from lakebed.spark.jobs.land.shapes import Shape
from lakebed.spark.jobs.land.target import target_of
from lakebed.spark.jobs.land.task import TaskFiles
from lakebed.spark.tables import files as table_files
from lakebed.spark.tables.commit import Transaction
from tests.spark.lands import Lake, messages, new_task, started_lake, written
from tests.spark.table_locations import delta

pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with started_lake(tmp_path_factory.mktemp("lake")) as started:
        yield started


def landing_of(lake: Lake, topic: str, **named: Any) -> Landing:
    return lake.config(topic, **{"values": "json", **named}).landings()[0]


def commit(
    lake: Lake, landing: Landing, *tasks: TaskFiles, batch: int = 0, query: str = "q"
) -> None:
    writer = LandingWriter(landing, SourceOptions({}, lake.s3))
    writer.commit([LandedFiles([msgspec.json.encode(one) for one in tasks], query)], batch)


WEEK_H = 168.0


class EightDaysAhead(SystemClock):
    def wall_ns(self) -> int:
        return super().wall_ns() + 8 * 24 * 3600 * NS_PER_S


def a_week_later(lake: Lake, landing: Landing) -> ParquetTarget:
    return ParquetTarget(lake.place(landing.table), landing, (), clock=EightDaysAhead())


def values(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_table_grows_with_its_documents_and_a_changed_type_is_rescued(
    lake: Lake, table_format: str
) -> None:
    topic = f"grows-{table_format}"
    landing = landing_of(lake, topic, table_format=table_format)
    first = messages({"a": 1}, {"a": 2, "s": {"x": 1}})
    second = messages({"a": "no"}, {"b": "new", "s": {"y": [1]}}, {"a": 5, "A": 6}, first=2)
    third = messages(None, {"b": None, "c": None}, b"oops", {"b": "last"}, first=5)
    task = written(landing, lake, first, second, third)
    assert len(task.rows) == 2, "files with another schema are others"
    commit(lake, landing, task)
    is_delta = table_format == "delta"
    rows = lake.rows(topic) if is_delta else lake.parquet_rows(topic)
    assert [row["_offset"] for row in rows] == [0, 1, 2, 3, 4, 5, 6, 8]
    if is_delta:
        assert values(rows, "a", "b", "s", "_rescued") == [
            (1, None, None, None),
            (2, None, {"x": 1, "y": None}, None),
            (None, None, None, '{"a":"no"}'),
            (None, "new", {"x": None, "y": [1]}, None),
            (5, None, None, '{"A":6}'),
            (None, None, None, None),
            (None, None, None, None),
            (None, "last", None, None),
        ]
        dead = lake.dead_letters(topic)
        assert values(dead, "offset", "value") == [(7, b"oops")]
        assert values(dead, "topic", "partition", "key") == [("t", 0, b"k")]
        assert "malformed" in dead[0]["error"]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_tasks_that_want_the_same_column_in_two_types_agree_on_one(
    lake: Lake, table_format: str
) -> None:
    topic = f"agree-{table_format}"
    landing = landing_of(lake, topic, table_format=table_format)
    tasks = [new_task(landing, lake) for _ in range(4)]
    documents: list[Any] = [{"x": 1, "a": 1}, {"x": "text", "b": 1}, {"x": 2.5, "c": 1}, {"x": [1]}]

    def run(number: int) -> TaskFiles:
        tasks[number].take(messages(documents[number], first=number))
        return tasks[number].finish()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    commit(lake, landing, *found)
    target = target_of(landing, lake.s3)
    schema = target.schema()
    assert schema is not None
    assert {"x", "a", "b", "c"} - set(schema.names) <= {"a", "b", "c"}
    rows = lake.rows(topic) if table_format == "delta" else lake.parquet_rows(topic)
    wanted = schema["x"].dataType.simpleString()
    assert wanted in ("bigint", "string", "double", "array<bigint>")
    fitting = [row for row in rows if row["x"] is not None]
    assert len(fitting) == (2 if wanted == "double" else 1)
    for number, row in enumerate(rows):
        kept = row["x"] is not None or json.loads(row["_rescued"])["x"] == documents[number]["x"]
        assert kept, row


def test_more_columns_than_there_may_be_are_rescued(lake: Lake) -> None:
    landing = landing_of(lake, "many", columns_max=8)
    task = written(landing, lake, messages({"a": 1, "b": 2}, *({f"x{n}": 1} for n in range(9))))
    commit(lake, landing, task)
    rescued = ['{"a":1,"b":2}', *(f'{{"x{n}":1}}' for n in range(9))]
    assert values(lake.rows("many"), "_rescued", "a") == [(one, None) for one in rescued]
    again = written(landing, lake, messages({"a": 1, "b": 2}, first=10))
    commit(lake, landing, again, batch=1)
    assert values(lake.rows("many")[-1:], "a", "b") == [(1, 2)]


def test_an_unknown_nested_field_of_a_document_with_a_misfit_is_not_lost(lake: Lake) -> None:
    landing = landing_of(lake, "nested")
    first = messages({"a": 1, "s": {"x": 1}})
    second = messages({"a": "no", "s": {"x": 2, "y": 3, "z z": 4}}, first=1)
    commit(lake, landing, written(landing, lake, first, second))
    rows = lake.rows("nested")
    assert values(rows, "a", "s") == [(1, {"x": 1, "y": None}), (None, {"x": 2, "y": 3})]
    assert json.loads(rows[1]["_rescued"]) == {"a": "no", "s": {"x": 2, "y": 3, "z z": 4}}


def test_a_given_schema_is_kept_and_other_fields_are_left_out(lake: Lake) -> None:
    schema = Shape()
    schema.add_value({"a": 1.5})
    landing = landing_of(lake, "given", schema="a DOUBLE")
    landing = msgspec.structs.replace(landing, schema_json=schema.struct().json())
    assert not landing.evolves
    commit(lake, landing, written(landing, lake, messages({"a": 1, "b": 2}, {"b": 3}, {"a": "x"})))
    assert values(lake.rows("given"), "a", "b", "_rescued") == [
        (1.0, None, None),
        (None, None, None),
        (None, None, '{"a":"x"}'),
    ]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_batch_that_is_repeated_is_there_once(lake: Lake, table_format: str) -> None:
    topic = f"repeated-{table_format}"
    landing = landing_of(lake, topic, table_format=table_format, evolves=True)
    read = lake.rows if table_format == "delta" else lake.parquet_rows
    batch = messages({"a": 1}, {"a": 2}, b"bad")
    commit(lake, landing, written(landing, lake, batch), batch=7)
    before = lake.keys(f"tables/{topic}/")
    # Rows that are cut otherwise, as they are when a batch is planned again.
    again = [written(landing, lake, messages({"a": number})) for number in (1, 2)]
    commit(lake, landing, *again, batch=7)
    assert values(read(topic), "a") == [(1,), (2,)]
    assert lake.keys(f"tables/{topic}/") == before
    assert lake.keys(f"_land/tables/{topic}/staged") == []
    commit(lake, landing, written(landing, lake, messages({"a": 3}, first=3)), batch=8)
    commit(lake, landing, written(landing, lake, messages({"a": 4}, first=4)), batch=7, query="r")
    assert values(read(topic), "a") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_commit_of_parquet_files_that_is_killed_is_finished_by_the_next(
    lake: Lake, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    topic = f"killed-{copies}"
    landing = landing_of(lake, topic, table_format="parquet")
    tasks = [written(landing, lake, messages({"a": number}, first=number)) for number in range(3)]
    copy, left = obstore.copy, [copies]

    def dying(*arguments: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        copy(*arguments)

    monkeypatch.setattr(obstore, "copy", dying)
    with pytest.raises(KeyboardInterrupt):
        commit(lake, landing, *tasks)
    monkeypatch.undo()
    again = written(landing, lake, *(messages({"a": n}, first=n) for n in range(3)))
    commit(lake, landing, again)
    assert values(lake.parquet_rows(topic), "a") == [(0,), (1,), (2,)]
    commit(lake, landing, again)
    assert values(lake.parquet_rows(topic), "a") == [(0,), (1,), (2,)]
    assert lake.keys(f"_land/tables/{topic}/staged") == []


def test_dead_letters_that_were_committed_before_the_rows_are_there_once(lake: Lake) -> None:
    landing = landing_of(lake, "between")
    batch = messages({"a": 1}, b"bad")
    task = written(landing, lake, batch)
    commit(lake, landing, msgspec.structs.replace(task, rows=[]))  # killed behind the first commit
    commit(lake, landing, written(landing, lake, batch))
    assert values(lake.rows("between"), "a") == [(1,)]
    assert values(lake.dead_letters("between"), "value") == [(b"bad",)]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_task_that_fails_leaves_nothing(
    lake: Lake, table_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"fails-{table_format}"
    landing = landing_of(lake, topic, table_format=table_format)
    task = new_task(landing, lake)
    task.take(messages({"a": 1}, b"bad"))
    task.take(messages({"b": 1}))  # the file of before is finished
    monkeypatch.setattr(table_files, "conformed", None)
    with pytest.raises(TypeError):
        task.take(messages({"b": 2}))
    monkeypatch.undo()
    task.drop()
    for prefix in (f"tables/{topic}/", f"tables/{topic}_dead_letters/", f"_land/tables/{topic}"):
        assert not [key for key in lake.keys(prefix) if key.endswith(".parquet")]


def test_what_a_killed_task_staged_is_vacuumed_and_only_that(lake: Lake) -> None:
    landing = landing_of(lake, "staged", table_format="parquet")
    commit(lake, landing, written(landing, lake, messages({"a": 1})))
    written(landing, lake, messages({"a": 2}))  # and killed
    target = target_of(landing, lake.s3)
    assert target.vacuum(retention_h=WEEK_H) == 0
    with pytest.raises(InputError, match="the minimum is 168"):
        target.vacuum(retention_h=0)
    assert a_week_later(lake, landing).vacuum(retention_h=WEEK_H) == 1
    assert lake.keys("_land/tables/staged/staged") == []
    assert values(lake.parquet_rows("staged"), "a") == [(1,)]
    with pytest.raises(InputError, match="only a Delta table"):
        target.optimize()


def test_a_vacuum_of_parquet_leaves_the_files_of_a_commit_that_was_begun(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    import obstore

    landing = landing_of(
        lake, "begun", table_format="parquet", vacuum_retention_h=WEEK_H, optimize_batches=2
    )
    commit(lake, landing, written(landing, lake, messages({"a": 2})), batch=0)
    commit(lake, landing, written(landing, lake, messages({"a": 3}, first=1)), batch=1)

    def dying(*_: Any) -> None:
        raise KeyboardInterrupt

    task = written(landing, lake, messages({"a": 4}, first=2))
    monkeypatch.setattr(obstore, "copy", dying)
    with pytest.raises(KeyboardInterrupt):
        commit(lake, landing, task, batch=2)
    monkeypatch.undo()
    target = a_week_later(lake, landing)
    assert target.vacuum(retention_h=WEEK_H) == 0, "the commit names these files"
    commit(lake, landing, written(landing, lake, messages({"a": 4}, first=2)), batch=2)
    assert values(lake.parquet_rows("begun"), "a") == [(2,), (3,), (4,)]


@pytest.mark.parametrize("table_format", ["delta", "parquet"])
def test_a_table_that_is_partitioned_otherwise_is_refused(lake: Lake, table_format: str) -> None:
    topic = f"parted-{table_format}"
    landing = landing_of(lake, topic, table_format=table_format, time_partition="day")
    commit(lake, landing, written(landing, lake, messages({"a": 1})))
    other = msgspec.structs.replace(landing, time_partition="hour")
    with pytest.raises(InputError, match=r"partitioned|partitioning"):
        commit(lake, other, written(other, lake, messages({"a": 1, "b": 1})), batch=1)


def test_a_message_of_the_far_future_is_a_row_without_a_day(lake: Lake) -> None:
    import pyarrow as pa

    landing = landing_of(lake, "future", time_partition="hour")
    stamps = pa.array([2**62, -(2**62), 0], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    batch = messages({"a": 1}, {"a": 2}, {"a": 3})
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", stamps)
    commit(lake, landing, written(landing, lake, batch))
    table = delta(lake.place("lake/tables/future")).to_pyarrow_table()
    assert sorted(table["a"].to_pylist()) == [1, 2, 3]
    assert sorted(map(str, table["_day"].to_pylist())) == ["1970-01-01", "None", "None"]


def test_two_commits_of_one_parquet_batch_have_one_winner(lake: Lake) -> None:
    landing = landing_of(lake, "winner", table_format="parquet")
    tasks = [written(landing, lake, messages({"a": 1}, {"a": 2})) for _ in range(4)]
    target = target_of(landing, lake.s3)
    assert isinstance(target, ParquetTarget)
    schema = target.schema()
    assert schema is not None
    with ThreadPoolExecutor(4) as pool:
        for one in [
            pool.submit(target.commit, task.rows, schema, Transaction("q", 0)) for task in tasks
        ]:
            one.result()
    assert values(lake.parquet_rows("winner"), "a") == [(1,), (2,)]
