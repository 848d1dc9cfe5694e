"""The demo's own claims: counts that disagree are noticed, and nothing else is disturbed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from lakebed.base.errors import DiskError
from lakebed.node.demo import group, landing, verification
from lakebed.node.demo.checks import Check, Tally, disagreeing, tally
from lakebed.node.demo.crash import first_from
from lakebed.node.demo.events import (
    KINDS,
    SCHEMA,
    TOPIC,
    EventSource,
    Ledger,
    Moment,
    ids_in,
    rates_between,
)
from lakebed.node.demo.scale import EVENT_COUNT_MIN, default_event_count, scale_of
from lakebed.node.demo.summary import Summary, next_steps
from lakebed.node.demo.tiers import LOG, TierSizes
from lakebed.node.demo.tour import run
from lakebed.spark.jobs.watcher import NullWatcher
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from tests.node.demo_contexts import context_in, found


def summary(*checks: Check) -> Summary:
    return Summary(
        seed=1,
        is_compiled=True,
        seconds=1.25,
        checks=checks,
        rates={"events produced": 10},
        sizes={"topic": 5},
        tiers=(TierSizes("sealed", 3, 0, 0),),
    )


def test_ids_that_are_missing_repeated_or_strange_are_told_apart() -> None:
    assert tally([0, 1, 2, 3], acknowledged_count=4) == Tally(4, 0, 0)
    assert tally([3, 1, 0], acknowledged_count=4) == Tally(3, 0, 0)
    assert tally([0, 1, 1, 2, 1, 3], acknowledged_count=4) == Tally(4, 2, 0)
    assert tally([0, 1, 2, 3, 4, -1], acknowledged_count=4) == Tally(4, 0, 2)
    assert tally([], acknowledged_count=0) == Tally(0, 0, 0)


def test_one_count_that_disagrees_spoils_the_run() -> None:
    good, bad = Check("rows", 3, 3), Check("ids", 3, 2)
    assert summary(good).is_good
    assert not summary(good, bad, good).is_good
    assert disagreeing([good, bad]) == [bad]
    assert not summary().is_good, "nothing was counted"


def test_the_summary_is_a_plain_document() -> None:
    document = json.loads(json.dumps(summary(Check("rows", 3, 2)).document()))
    assert document["ok"] is False
    assert document["checks"] == [{"what": "rows", "expected": 3, "found": 2, "agrees": False}]
    assert document["tiers"][0]["tier0_bytes"] == 3


def test_the_next_steps_name_the_store_that_was_kept() -> None:
    (only,) = next_steps(None, program="lakebed", has_table=True)
    assert "--scratch" in only
    steps = next_steps(Path("/a b/store"), program="lakebed", has_table=False)
    assert all(step.startswith("lakebed --root '/a b/store' ") for step in steps)
    assert not any("spark" in step for step in steps)
    steps = next_steps(Path("/store"), program="lakebed", has_table=True)
    assert any("spark run tier-history" in step for step in steps)


def test_the_same_seed_makes_the_same_events_and_their_sums() -> None:
    first, second = (EventSource(seed=3, start_ms=0) for _ in range(2))
    other = EventSource(seed=4, start_ms=0)
    made = [first.batch(100), first.batch(50)]
    assert made == [second.batch(100), second.batch(50)]
    assert made[0] != other.batch(100)
    events = [json.loads(value) for batch in made for value in batch.values]
    assert [event["id"] for event in events] == list(range(150))
    assert list(events[0]) == [column.split()[0] for column in SCHEMA.split(", ")]
    assert events[1]["time"] == "1970-01-01T00:00:00.001+00:00"
    ledger = Ledger()
    for batch in made:
        ledger.add(batch, at_ns=0)
    assert (ledger.event_count, set(ledger.counts) <= set(KINDS)) == (150, True)
    assert ledger.amounts.total() == sum(event["amount"] for event in events)
    orders = [event for event in events if event["kind"] == "order"]
    assert ledger.counts["order"] == len(orders)
    assert ledger.amounts["order"] == sum(event["amount"] for event in orders)
    assert ledger.size_bytes == sum(len(value) for batch in made for value in batch.values)


def test_rates_have_a_step_for_every_pause() -> None:
    second = 1_000_000_000
    moments = [Moment(7, 5), Moment(7, 10), Moment(second, 30), Moment(4 * second, 40)]
    rates = [(0.0, 25.0), (1.0, 0.0), (2.0, 0.0), (3.0, 10.0)]
    assert rates_between(moments, step_ns=second) == rates
    assert rates_between([], step_ns=10) == []


def test_an_answer_that_was_under_way_when_the_node_was_killed_is_not_the_end_of_the_outage() -> (
    None
):
    moments = [Moment(10, 5), Moment(21, 6), Moment(35, 7), Moment(36, 8)]
    assert first_from(moments, 30) == 35


def test_all_that_is_done_follows_from_the_number_of_events() -> None:
    assert all(count > 0 for count in scale_of(EVENT_COUNT_MIN))
    assert default_event_count(is_compiled=False) < default_event_count(is_compiled=True)


def test_the_ids_of_a_topic_are_those_that_were_appended(tmp_path: Path) -> None:
    source = EventSource(seed=1, start_ms=0)
    batches = [source.batch(40) for _ in range(5)]
    with Store.open(tmp_path) as store:
        topic = store.topic(TOPIC, partitions=2)
        for batch in [*batches[:3], batches[1], batches[4]]:
            topic.append_batch(batch.values).result()
        assert tally(ids_in(topic), acknowledged_count=200) == Tally(160, 40, 0)
        assert tally(ids_in(topic), acknowledged_count=160) == Tally(120, 40, 40)


def test_a_group_settles_each_message_once_and_gets_one_again(tmp_path: Path) -> None:
    with context_in(tmp_path, events=50_000) as context, Store.open(tmp_path) as store:
        topic = store.topic(TOPIC, partitions=2)
        topic.append_batch([b"message"] * 6_000, partition=0).result()
        settled = group.settle(context, topic, event_count=6_000)
        assert len(settled.places) >= context.scale.settled
        assert settled.given_back in settled.places
        group.lease_again(context, topic, settled)
        assert all(expected == there for expected, there in found(context).values())


def test_a_group_whose_lag_is_not_what_it_left_disagrees(tmp_path: Path) -> None:
    with context_in(tmp_path, events=30_000) as context, Store.open(tmp_path) as store:
        topic = store.topic(TOPIC, partitions=2)
        topic.append_batch([b"message"] * 6_000, partition=0).result()
        settled = group.settle(context, topic, event_count=6_001)
        expected, there = found(context)["messages settled by the group"]
        assert there == expected + 1
        topic.group(group.GROUP).reset()
        group.lease_again(context, topic, settled)
        expected, there = found(context)["settled messages delivered again"]
        assert (expected, there > 0) == (0, True)


@pytest.mark.parametrize(
    ("rows", "cents", "disagreeing_count"),
    [((3, 2), (30, 7), 0), ((2, 3), (30, 7), 1), ((3, 2), (7, 30), 1), ((3, 1), (30, 6), 3)],
)
def test_a_table_that_adds_up_to_something_else_disagrees(
    tmp_path: Path, rows: tuple[int, int], cents: tuple[int, int], disagreeing_count: int
) -> None:
    kinds = ("order", "view")
    ledger = Ledger(
        event_count=5, counts=Counter(order=3, view=2), amounts=Counter(order=30, view=7)
    )
    queried = landing.QueryResult(
        Counter(dict(zip(kinds, rows, strict=True))),
        5,
        Counter(dict(zip(kinds, cents, strict=True))),
    )
    with context_in(tmp_path) as context:
        landing.compare(context, queried, ledger, when="")
        assert len(disagreeing(context.checks)) == disagreeing_count


def test_a_damaged_store_disagrees(tmp_path: Path) -> None:
    with context_in(tmp_path, events=1_000) as context:
        with Store.open(context.root) as store:
            store.topic(TOPIC).append_batch([b"a message"] * 100).result()
            log = store.log(LOG)
            log.append_records([b"a record"] * context.scale.records)
            log.seal_current_segment()
        verification.judge(context, verify_store(context.root), event_count=100)
        assert all(expected == there for expected, there in found(context).values())
        (segment, *_) = sorted((context.root / "aof" / LOG / "segments").glob("*.seg"))
        with segment.open("r+b") as file:
            file.seek(230)  # in a record
            file.write(b"\xff\xff")
        verification.judge(context, verify_store(context.root), event_count=99)
        expected, there = found(context)["problems found by verify"]
        assert (expected, there > 0) == (0, True)
        assert found(context)["messages with good checksums"] == (99, 100)


def test_a_folder_that_is_in_use_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(DiskError, match="use a new folder"):
        run(scratch=tmp_path, watcher=NullWatcher(), seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.sweep
def test_power_cuts_are_really_tried() -> None:
    from lakebed.node.demo.power_cut import PowerCut, cut_power_everywhere

    assert cut_power_everywhere(7) > 300
    assert PowerCut().ledger == []
