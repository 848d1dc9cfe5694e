"""Plans of logs over the HTTP API take one call, however many logs there are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, In
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lakebed.aof.config import AofConfig
from lakebed.aof.format import RECORDS_START
from lakebed.base.errors import NotFound
from lakebed.base.units import MIB
from lakebed.spark.errors import DataLost
from tests.http_api.live_api import HOST, LiveApi, open_api
from tests.spark.feeds import log_reader, log_stream, rows
from tests.store.lake_tiers import OBJECTS, SHARED

CONFIG = AofConfig(segment_bytes=1 * MIB)
MS_NS = 1_000_000


@pytest.fixture
def live_api(tmp_path: Path) -> Iterator[LiveApi]:
    with open_api(tmp_path, config=CONFIG, tier_config=SHARED, object_config=OBJECTS) as opened:
        yield opened


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, [0, 1, 2, 3]),
        ({"startingTimestamp": "2", "pinSeconds": "0"}, [1, 2, 3]),
        ({"startingTimestamp": "2", "endingTimestamp": "4"}, [1, 2]),
        (
            {"startingOffsets": json.dumps({f"many-{n}": f"1:{RECORDS_START}" for n in range(12)})},
            [1, 2, 3],
        ),
        (
            {"endingOffsets": json.dumps({f"many-{n}": f"1:{RECORDS_START}" for n in range(12)})},
            [0],
        ),
    ],
)
def test_a_plan_takes_one_call_however_many_logs_there_are(
    live_api: LiveApi, options: dict[str, str], numbers: list[int]
) -> None:
    names = make_many(live_api)
    chosen = {"log": "", "logs": ",".join(names), "endpoint": url(live_api)} | options
    reader = log_reader("", **chosen)
    before = live_api.calls()
    splits = reader.partitions()
    assert live_api.calls() - before == Counter({"plan_logs": 1})
    assert len(live_api.store.pins.active()) == (0 if "pinSeconds" in options else len(names))
    found = [(row["log"], row["ext_id"]) for row in rows(reader, splits)]
    assert found == [(name, number) for name in names for number in numbers]


def test_conditions_are_part_of_the_one_call(live_api: LiveApi) -> None:
    names = make_many(live_api)
    filters = [EqualTo(("segment",), 1), In(("log",), (names[2], names[5]))]
    logs = {"log": "", "logs": ",".join(names)}
    reader = log_reader("", *filters, endpoint=url(live_api), **logs)
    before = live_api.calls()
    splits = reader.partitions()
    assert live_api.calls() - before == Counter({"plan_logs": 1})
    pinned = {(pin.log, pin.start, pin.end) for pin in live_api.store.pins.active()}
    assert pinned == {(names[2], 1, 2), (names[5], 1, 2)}
    found = [(row["log"], row["ext_id"]) for row in rows(reader, splits)]
    assert found == [(names[2], 1), (names[5], 1)]


def test_a_micro_batch_looks_at_all_logs_and_plans_them_at_once(live_api: LiveApi) -> None:
    names = make_many(live_api)
    reader = log_stream("", log="", logs=",".join(names), endpoint=url(live_api))
    start = reader.initialOffset()
    before = live_api.calls()
    end = reader.latestOffset(start, ReadAllAvailable())
    splits = reader.partitions(start, end)
    calls = live_api.calls() - before
    assert calls.pop("plan_logs") == 3
    assert sum(calls.values()) == 2 * len(names), calls  # where each one's segment begins
    assert len(rows(reader, splits)) == 4 * len(names)
    reader.stop()


def test_a_plan_says_what_is_missing_or_lost(live_api: LiveApi) -> None:
    names = make_many(live_api)
    logs = {"log": "", "logs": f"{names[0]},missing", "endpoint": url(live_api)}
    with pytest.raises(NotFound, match=r"missing.*existing logs: many-0, "):
        log_reader("", **logs).partitions()
    assert "missing" not in live_api.store.logs()
    only = {"log": names[1], "endpoint": url(live_api)}
    with pytest.raises(
        NotFound, match=r"many-1: there is no partition 3 \(the topic or log has 1\)"
    ):
        log_reader("", startingOffsets=json.dumps({names[1]: {"3": "0:64"}}), **only).partitions()
    for name in ("startingOffsets", "endingOffsets"):
        beyond = log_reader("", **only, **{name: json.dumps({names[1]: "9:64"})})
        with pytest.raises(DataLost, match="9:64 was requested, but the end is "):
            beyond.partitions()
    assert live_api.store.pins.active() == []


def make_many(live_api: LiveApi) -> list[str]:
    """Logs of four records, a millisecond apart, each in a segment of its own."""
    names = [f"many-{number}" for number in range(12)]
    for name in names:
        log = live_api.store.log(name)
        for number in range(4):
            log.append_record(b"x" * 100, ext_id=number, timestamp=(number + 1) * MS_NS)
            log.flush()
            if number < 3:
                log.seal_current_segment()
    return names


def url(live_api: LiveApi) -> str:
    return f"http://{HOST}:{live_api.port}"
