"""Topics behind the HTTP API: a topic that was deleted and made again is another one there, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql.datasource import GreaterThanOrEqual, LessThan
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lakebed.api.topics import TopicState
from lakebed.base.errors import NotFound
from lakebed.client.store import RemoteStore
from lakebed.spark.backends import Backend
from lakebed.spark.errors import DataLost
from lakebed.store.store import Store
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.spark.feeds import SMALL, fill, numbers, rows, topic_reader, topic_stream

ALL = ReadAllAvailable()


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, topic_config=SMALL) as opened:
        make(opened.store)
        yield opened


def make(store: Store) -> None:
    for partition in store.topic("events", partitions=2).partitions:
        fill(partition, 300)


def make_again(store: Store) -> None:
    store.topics.delete("events")
    make(store)


def url(live_api: LiveApi) -> str:
    return f"http://{HOST}:{live_api.port}"


def test_the_identity_is_that_of_the_files(live_api: LiveApi) -> None:
    expected = live_api.store.topic("events").identity.topic_id
    with RemoteStore.open(url(live_api)) as store:
        assert store.topics.open("events").topic_id == expected
        assert store.topic("events").topic_id == expected
    for backend in (Backend(endpoint=url(live_api)), Backend(path=live_api.store.root)):
        with backend.open() as opened:
            assert opened.topics.open("events").topic_id == expected
            make_again(live_api.store)
            expected = live_api.store.topic("events").identity.topic_id
            assert opened.topics.open("events").topic_id == expected


def test_a_topic_that_was_made_again_is_not_taken_for_the_one_that_was_planned(
    live_api: LiveApi,
) -> None:
    reader = topic_reader("", endpoint=url(live_api))
    splits = reader.partitions()
    assert len(live_api.store.pins.active_offsets()) == 2
    assert numbers(rows(reader, splits)) == [*range(300)] * 2
    make_again(live_api.store)
    with pytest.raises(DataLost, match="deleted and created again"):
        rows(reader, splits)
    assert numbers(rows(topic_reader("", endpoint=url(live_api)))) == [*range(300)] * 2


def test_a_stream_notices_a_topic_that_was_made_again(live_api: LiveApi) -> None:
    reader = topic_stream("", endpoint=url(live_api))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert numbers(rows(reader, reader.partitions(start, end))) == [*range(300)] * 2
    make_again(live_api.store)
    with pytest.raises(DataLost, match="deleted and created again after the stream's checkpoint"):
        reader.latestOffset(json.loads(json.dumps(end)), ALL)
    reader.stop()
    lenient = topic_stream("", endpoint=url(live_api), failOnDataLoss="false")
    again = lenient.latestOffset(end, ALL)
    assert numbers(rows(lenient, lenient.partitions(end, again))) == [*range(300)] * 2
    lenient.stop()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 20 * 10),
        ({"startingTimestamp": "5000", "pinSeconds": "0"}, 20 * 6),
        ({"startingTimestamp": "5000", "endingTimestamp": "7000"}, 20 * 2),
        ({"startingOffsets": '{"many": {"3": 8, "4": -1}}'}, 20 * 10 - 8 - 10),
        ({"topic": "", "topics": "many,events"}, 20 * 10 + 2 * 300),
    ],
)
def test_a_plan_takes_one_call_however_many_partitions_there_are(
    live_api: LiveApi, options: dict[str, str], count: int
) -> None:
    for partition in live_api.store.topic("many", partitions=20).partitions:
        fill(partition, 10)
    chosen = {"topic": "many", "endpoint": url(live_api), "minPartitions": "4"} | options
    reader = topic_reader("", **chosen)
    before = live_api.calls()
    splits = reader.partitions()
    assert live_api.calls() - before == Counter({"plan_topics": 1})
    before = live_api.calls()
    assert len(rows(reader, splits)) == count
    others = live_api.calls() - before
    assert others.pop("fetch_raw") <= 30
    assert sum(others.values()) <= 4, others


def test_conditions_are_part_of_the_one_call(live_api: LiveApi) -> None:
    for partition in live_api.store.topic("many", partitions=20).partitions:
        fill(partition, 10)
    moment = datetime.fromtimestamp(5, UTC)
    filters = [
        GreaterThanOrEqual(("partition",), 15),
        LessThan(("offset",), 8),
        GreaterThanOrEqual(("timestamp",), moment),
    ]
    expected = topic_reader(live_api.store.root, *filters, topic="many")
    reader = topic_reader("", *filters, topic="many", endpoint=url(live_api))
    before = live_api.calls()
    splits = reader.partitions()
    assert live_api.calls() - before == Counter({"plan_topics": 1})
    ranges = {(pin.partition, pin.start, pin.end) for pin in live_api.store.pins.active_offsets()}
    assert ranges == {(number, 4, 8) for number in range(15, 20)}
    assert rows(reader, splits) == rows(expected)
    assert len(rows(reader, splits)) == 5 * 4


def test_a_micro_batch_takes_as_many_calls_however_many_topics_there_are(live_api: LiveApi) -> None:
    names = [f"many-{number}" for number in range(5)]
    for name in names:
        for partition in live_api.store.topic(name, partitions=4).partitions:
            fill(partition, 10)
    reader = topic_stream("", topic="", topics=",".join(names), endpoint=url(live_api))
    before = live_api.calls()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(70))
    splits = reader.partitions(start, end)
    assert live_api.calls() - before == Counter({"plan_topics": 4, "advance_topics": 1})
    assert len(rows(reader, splits)) == 70
    reader.stop()


def test_a_plan_through_an_endpoint_says_what_is_missing(live_api: LiveApi) -> None:
    with pytest.raises(NotFound, match=r"missing.*existing topics: events"):
        topic_reader("", topics="events,missing", topic="", endpoint=url(live_api)).partitions()
    beyond = {"startingOffsets": '{"2": 17}', "endpoint": url(live_api)}
    with pytest.raises(
        NotFound, match=r"events: there is no partition 2 \(the topic or log has 2\)$"
    ):
        topic_reader("", **beyond).partitions()
    for name in ("startingOffsets", "endingOffsets"):
        with pytest.raises(DataLost, match="301 was requested, but the end is 300"):
            topic_reader("", endpoint=url(live_api), **{name: '{"1": 301}'}).partitions()
    assert live_api.store.pins.active_offsets() == []


def test_numbers_that_no_offset_can_have_are_understood(live_api: LiveApi) -> None:
    beyond = {"startingOffsets": json.dumps({"0": 10**30}), "endpoint": url(live_api)}
    with pytest.raises(DataLost, match=f"{10**30} was requested, but the end is 300"):
        topic_reader("", **beyond).partitions()
    lenient = topic_reader("", failOnDataLoss="false", **beyond)
    assert {row["partition"] for row in rows(lenient)} == {1}
    filters = [GreaterThanOrEqual(("offset",), -5), LessThan(("offset",), 1 << 70)]
    assert len(rows(topic_reader("", *filters, endpoint=url(live_api)))) == 600
    assert rows(topic_reader("", LessThan(("offset",), -5), endpoint=url(live_api))) == []


def test_a_trigger_through_an_endpoint_takes_the_oldest_rows_too(live_api: LiveApi) -> None:
    first, second = live_api.store.topic("events").partitions
    first.append_batch([b"x"] * 30, timestamps_ms=[400_000 + 1000 * n for n in range(30)]).result()
    second.append_batch(
        [b"x"] * 300, timestamps_ms=[400_000 + 100 * n for n in range(300)]
    ).result()
    offsets = []
    for place in ({"path": "", "endpoint": url(live_api)}, {"path": str(live_api.store.root)}):
        reader = topic_stream(**place, startingOffsets='{"0": 300, "1": 300}')
        offsets.append(reader.latestOffset(reader.initialOffset(), ReadMaxRows(111)))
        reader.stop()
    assert offsets[0] == offsets[1]
    assert offsets[0]["lakebed"]["events"]["positions"] == {"0": 310, "1": 401}


def test_a_server_that_tells_no_identity_is_understood() -> None:
    told = {"name": "events", "partitions": [], "settings": {}}
    assert msgspec.convert(told, TopicState).topic_id == ""
