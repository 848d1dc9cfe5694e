"""Topics behind the HTTP API: a topic that was deleted and made again is another one there, too."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lakebed.api.topics import TopicState
from lakebed.client.store import RemoteStore
from lakebed.spark.errors import DataLost
from lakebed.spark.places.place import Place
from lakebed.store.store import Store
from tests.door.door import HOST, LiveDoor, open_door
from tests.spark.feeds import SMALL, fill, numbers, rows, topic_reader, topic_stream

ALL = ReadAllAvailable()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[LiveDoor]:
    with open_door(tmp_path, topic_config=SMALL) as opened:
        make(opened.store)
        yield opened


def make(store: Store) -> None:
    for partition in store.topic("events", partitions=2).partitions:
        fill(partition, 300)


def make_again(store: Store) -> None:
    store.topics.delete("events")
    make(store)


def url(door: LiveDoor) -> str:
    return f"http://{HOST}:{door.port}"


def test_the_identity_is_that_of_the_files(door: LiveDoor) -> None:
    expected = door.store.topic("events").topic.identity.topic_id
    with RemoteStore.open(url(door)) as store:
        assert store.topics.open("events").topic_id == expected
        assert store.topic("events").topic_id == expected
    for place in (Place(endpoint=url(door)), Place(path=door.store.root)):
        with place.open() as opened:
            assert opened.topic("events").topic_id == expected
            make_again(door.store)
            expected = door.store.topic("events").topic.identity.topic_id
            assert opened.topic("events").topic_id == expected


def test_a_topic_that_was_made_again_is_not_taken_for_the_one_that_was_planned(
    door: LiveDoor,
) -> None:
    reader = topic_reader("", endpoint=url(door))
    splits = reader.partitions()
    assert len(door.store.pins.active_offsets()) == 2
    assert numbers(rows(reader, splits)) == [*range(300)] * 2
    make_again(door.store)
    with pytest.raises(DataLost, match="deleted and made again"):
        rows(reader, splits)
    assert numbers(rows(topic_reader("", endpoint=url(door)))) == [*range(300)] * 2


def test_a_stream_notices_a_topic_that_was_made_again(door: LiveDoor) -> None:
    reader = topic_stream("", endpoint=url(door))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert numbers(rows(reader, reader.partitions(start, end))) == [*range(300)] * 2
    make_again(door.store)
    with pytest.raises(DataLost, match="deleted and made again since the stream's checkpoint"):
        reader.latestOffset(json.loads(json.dumps(end)), ALL)
    reader.stop()
    lenient = topic_stream("", endpoint=url(door), failOnDataLoss="false")
    again = lenient.latestOffset(end, ALL)
    assert numbers(rows(lenient, lenient.partitions(end, again))) == [*range(300)] * 2
    lenient.stop()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"describe_topic": 1, "plan_topics": 1}),
        (
            {"startingTimestamp": "5000", "pinSeconds": "0"},
            {"describe_topic": 1, "offsets_for_time": 1, "plan_topics": 1},
        ),
    ],
)
def test_a_plan_takes_as_many_calls_however_many_partitions_there_are(
    door: LiveDoor, options: dict[str, str], expected: dict[str, int]
) -> None:
    for partition in door.store.topic("many", partitions=20).partitions:
        fill(partition, 10)
    reader = topic_reader("", topic="many", endpoint=url(door), **options)
    before = calls(door)
    splits = reader.partitions()
    assert calls(door) - before == Counter(expected)
    before = calls(door)
    assert len(rows(reader, splits)) == (20 * 10 if not options else 20 * 6)
    others = calls(door) - before
    assert others.pop("fetch_raw") == 20
    assert sum(others.values()) <= 3, others


def calls(door: LiveDoor) -> Counter[str]:
    """How often each operation was called, by name."""
    found = door.door.service.counters.snapshot().counters
    return Counter({name.removesuffix(".2xx"): count for name, count in found.items()})


def test_a_trigger_through_an_endpoint_takes_the_oldest_rows_too(door: LiveDoor) -> None:
    first, second = door.store.topic("events").partitions
    first.append_batch([b"x"] * 30, timestamps_ms=[400_000 + 1000 * n for n in range(30)]).result()
    second.append_batch(
        [b"x"] * 300, timestamps_ms=[400_000 + 100 * n for n in range(300)]
    ).result()
    offsets = []
    for place in ({"path": "", "endpoint": url(door)}, {"path": str(door.store.root)}):
        reader = topic_stream(**place, startingOffsets='{"0": 300, "1": 300}')
        offsets.append(reader.latestOffset(reader.initialOffset(), ReadMaxRows(111)))
        reader.stop()
    assert offsets[0] == offsets[1]
    assert offsets[0]["lakebed"]["events"]["positions"] == {"0": 310, "1": 401}


def test_a_server_that_tells_no_identity_is_understood() -> None:
    told = {"name": "events", "partitions": [], "settings": {}}
    assert msgspec.convert(told, TopicState).topic_id == ""
