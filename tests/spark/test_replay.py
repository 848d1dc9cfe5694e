"""Messages published again, on a real session."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakebed.base.errors import InputError, NotFound
from lakebed.host.store import Store
from lakebed.keratin.partitioner import partition_of
from lakebed.spark.backends import Backend
from lakebed.spark.jobs.publication import Publication
from lakebed.spark.jobs.replay import replay
from lakebed.spark.jobs.span import Origin, Span
from tests.spark.feeds import writing
from tests.spark.messages import FIRST_MS, fill_special, told
from tests.spark.watchers import KeepingWatcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 40


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return Backend(path=str(tmp_path / "root"))


def root_of(backend: Backend) -> Path:
    return Path(backend.path)


@pytest.mark.spark
def test_all_of_a_message_stays(spark: SparkSession, backend: Backend) -> None:
    fill_special(root_of(backend), "orders", partitions=2, count=COUNT)
    watcher = KeepingWatcher()
    to = Publication(backend=backend, topic="again", creates_topic=True, keeps_partitions=True)
    report = replay(spark, backend, Origin("orders"), to, watcher=watcher)
    assert told(root_of(backend), "again") == told(root_of(backend), "orders")
    assert (report.row_count, report.is_good) == (2 * COUNT, True)
    assert report.size_bytes > 0
    assert report.facts["done_before"] is False
    assert report.facts["first_offsets"] == {"0": 0, "1": 0}
    assert watcher.began == [("replay", 2 * COUNT, "rows")]
    assert watcher.advances[-1] == (2 * COUNT, report.size_bytes)


@pytest.mark.spark
def test_what_has_a_name_is_done_once_and_keys_choose_the_partition(
    spark: SparkSession, backend: Backend
) -> None:
    root = root_of(backend)
    fill_special(root, "orders", partitions=2, count=COUNT)
    to = Publication(backend=backend, topic="t", name="n", creates_topic=True, partitions=3)
    span = Span(start={None: 10, 1: 12}, end={None: 20}, partitions=(1,))
    first = replay(spark, backend, Origin("orders"), to, span=span)
    assert first.row_count == 8
    found = told(root, "t")
    wanted = told(root, "orders")[1][12:20]
    for number, messages in enumerate(found):
        keyed = [one for one in messages if one.key is not None]
        assert keyed == [
            one for one in wanted if one.key is not None and partition_of(one.key, 3) == number
        ], "of one partition messages stay in their order"
    assert sorted(chain(*found), key=repr) == sorted(wanted, key=repr)
    again = replay(spark, backend, Origin("orders"), to)  # whatever the range is by now
    assert (again.row_count, again.facts["done_before"]) == (0, True)
    assert again.facts["messages"] == 8
    assert told(root, "t") == found


@pytest.mark.spark
def test_a_range_of_time_is_by_the_messages_own_times(
    spark: SparkSession, backend: Backend
) -> None:
    """Also if they are not in order."""
    seconds = [5, 1, 9, 3, 7, 3, 0, 5]
    with writing(root_of(backend)) as store:
        store.topics.create("from").partition(0).append_batch(
            [b"%d" % second for second in seconds],
            timestamps_ms=[FIRST_MS + 1000 * second for second in seconds],
        ).result()
        store.topics.create("to")
    span = Span(time_start_us=(FIRST_MS + 3000) * 1000, time_end_us=(FIRST_MS + 7000) * 1000)
    to = Publication(backend=backend, topic="to")
    report = replay(spark, backend, Origin("from"), to, span=span)
    assert report.row_count == 4
    assert [one.value for one in told(root_of(backend), "to")[0]] == [b"5", b"3", b"3", b"5"]


@pytest.mark.spark
def test_a_log_becomes_messages(spark: SparkSession, backend: Backend) -> None:
    with writing(root_of(backend)) as store:
        log = store.log("audit")
        texts = [b"record %d" % number for number in range(20)]
        ids = [log.append_record_with_timeout(text, 10) for text in texts]
        log.flush()
        store.topics.create("to")
    span = Span(start={None: str(ids[5])}, end={None: str(ids[15])})
    origin = Origin("audit", is_log=True)
    report = replay(spark, backend, origin, Publication(backend=backend, topic="to"), span=span)
    assert report.row_count == 10
    found = told(root_of(backend), "to")[0]
    assert [one.value for one in found] == texts[5:15]
    assert {(one.key, one.headers) for one in found} == {(None, ())}
    assert all(one.timestamp_ms > FIRST_MS for one in found)


@pytest.mark.spark
def test_an_empty_range_writes_nothing(spark: SparkSession, backend: Backend) -> None:
    fill_special(root_of(backend), "orders", partitions=2, count=3)
    to = Publication(backend=backend, topic="orders", name="n")
    report = replay(spark, backend, Origin("orders"), to, span=Span(start={None: 3}))
    assert (report.row_count, report.size_bytes) == (0, 0)
    assert [len(one) for one in told(root_of(backend), "orders")] == [3, 3]


def test_what_cannot_be_done_is_told_before_spark_is_asked(backend: Backend) -> None:
    fill_special(root_of(backend), "orders", partitions=1, count=1)
    nobody: SparkSession = None  # type: ignore[assignment]
    with pytest.raises(NotFound, match="there is no topic nope"):
        replay(nobody, backend, Origin("nope"), Publication(backend=backend, topic="orders"))
    with pytest.raises(NotFound, match="no topic nope, and the job was not asked to create it"):
        Publication(backend=backend, topic="nope").check()
    with pytest.raises(
        InputError, match="only be set together with the option to create the topic"
    ):
        Publication(backend=backend, topic="orders", partitions=3)
    kept = Publication(backend=backend, topic="orders", keeps_partitions=True)
    with pytest.raises(InputError, match="cannot keep partitions, because 'nope' is a log"):
        replay(nobody, backend, Origin("nope", is_log=True), kept)
    with pytest.raises(InputError, match="staging bucket"):
        Publication(backend=backend, topic="orders", staging_bucket="b")


def test_the_store_is_not_needed_by_who_checks(backend: Backend) -> None:
    """It is read beside whoever has it open."""
    fill_special(root_of(backend), "orders", partitions=1, count=1)
    with Store.open(backend.path):
        Publication(backend=backend, topic="orders").check()
