"""What a commit writes and answers, decided from values alone."""

from __future__ import annotations

from typing import Any

import pytest

from lakebed.base.errors import InputError
from lakebed.keratin.append_requests import build_append, build_batch_append
from lakebed.keratin.commit_plan import CommitPlan, plan_commit
from lakebed.keratin.config import Ack
from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.headers import Producer
from lakebed.keratin.producers import Producers
from lakebed.keratin.record_batch import build, check
from lakebed.keratin.writer_requests import SYNC, Append, Appended
from lakebed.kernels import keratin_encode
from tests.keratin.partitions import small

CONFIG = small()


def plain(*payloads: bytes, **given: Any) -> Append:
    given = {"ack": Ack.AFTER_FSYNC, "timestamps_ms": 1, **given}
    return build_append(payloads, config=CONFIG, **given)


def batch(*payloads: bytes, producer: Producer | None = None) -> Append:
    data = build(payloads, timestamps_ms=5, producer=producer, first_offset=77)
    return build_batch_append(data, config=CONFIG, ack=Ack.AFTER_FSYNC)


def plan(
    *appends: Append,
    producers: Producers | None = None,
    next_offset: int = 100,
    durable_offset: int | None = None,
) -> CommitPlan:
    found = plan_commit(
        appends,
        next_offset=next_offset,
        durable_offset=next_offset if durable_offset is None else durable_offset,
        producers=producers or Producers(),
        now_ms=1000,
    )
    assert len(found.answers) == len(appends)
    encoded = keratin_encode(
        found.payloads,
        found.headers,
        offsets=found.offsets,
        timestamps_ms=found.timestamps_ms,
        flags=found.flags,
        capacity=1 << 30,
    )
    assert len(encoded.data) == found.size, "the size that was told is what is written"
    return found


def test_offsets_are_given_out_in_the_order_of_the_queue() -> None:
    found = plan(plain(b"a", b"b"), plain(b"c"), plain(b"d", b"e", timestamps_ms=[7, 8]))
    assert found.answers == [Appended(100, 2), Appended(102, 1), Appended(103, 2)]
    assert list(found.payloads) == [b"a", b"b", b"c", b"d", b"e"]
    assert list(found.record_offsets()) == [100, 101, 102, 103, 104]
    assert list(found.timestamps_ms) == [1, 1, 1, 7, 8]  # type: ignore[arg-type]
    assert found.next_offset == 105
    assert found.is_sync_wanted


def test_one_append_alone_is_passed_on_as_it_is() -> None:
    append = plain(b"a", b"b")
    found = plan(append)
    assert found.payloads is append.payloads
    assert list(found.record_offsets()) == [100, 101]


def test_a_sync_is_wanted_only_by_those_who_want_it() -> None:
    hasty = plain(b"a", ack=Ack.AFTER_WRITE)
    assert not plan(hasty).is_sync_wanted
    assert plan(hasty, plain(b"b")).is_sync_wanted
    assert plan(hasty, SYNC).is_sync_wanted
    assert plan(SYNC, durable_offset=99).is_sync_wanted
    assert not plan(SYNC).is_sync_wanted


def test_what_was_only_written_is_synced_for_who_sends_it_again_and_wants_that() -> None:
    producers = Producers()
    first = plan(plain(b"a", producer=Producer(7, 0, 0), ack=Ack.AFTER_WRITE), producers=producers)
    producers.update(first.changed)
    again = plain(b"a", producer=Producer(7, 0, 0))
    known = {"producers": producers, "next_offset": 101}
    assert plan(again, durable_offset=100, **known).is_sync_wanted  # type: ignore[arg-type]
    assert not plan(again, durable_offset=101, **known).is_sync_wanted  # type: ignore[arg-type]


def test_a_batch_takes_its_place_whatever_it_was_sent_with() -> None:
    found = plan(plain(b"a"), batch(b"b", b"c", b"d"), plain(b"e"))
    assert found.answers == [Appended(100, 1), Appended(101, 3), Appended(104, 1)]
    assert list(found.record_offsets()) == [100, 101, 104]
    assert list(found.flags) == [0, RecordFlags.BATCH, 0]  # type: ignore[arg-type]
    assert check(found.payloads[1]).first_offset == 101


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_alone_takes_its_place_too(count: int) -> None:
    found = plan(batch(*[b"one"] * count))
    assert check(found.payloads[0]).first_offset == 100
    assert found.next_offset == 100 + count


def test_what_is_sent_twice_in_one_commit_is_written_once() -> None:
    append = plain(b"a", b"b", producer=Producer(7, 0, 0))
    found = plan(append, plain(b"x"), append)
    assert found.answers == [Appended(100, 2), Appended(102, 1), Appended(100, 2)]
    assert list(found.payloads) == [b"a", b"b", b"x"]


def test_the_rest_of_what_is_there_in_part_is_written() -> None:
    producers = Producers()
    producers.update(plan(plain(b"a", b"b", producer=Producer(7, 0, 0))).changed)
    keyed = plain(b"a", b"b", b"c", b"d", producer=Producer(7, 0, 0), timestamps_ms=[1, 2, 3, 4])
    found = plan(plain(b"x"), keyed, producers=producers, next_offset=102)
    assert found.answers == [Appended(102, 1), Appended(100, 4)]
    assert list(found.payloads) == [b"x", b"c", b"d"]
    assert list(found.timestamps_ms) == [1, 3, 4]  # type: ignore[arg-type]
    assert found.headers is not None
    assert list(found.headers[1:]) == list(keyed.headers[2:])  # type: ignore[index]
    producers.update(found.changed)
    again = plan(keyed, producers=producers, next_offset=105)
    assert again.answers == [Appended(100, 4)]
    assert not again.size


def test_one_who_is_refused_does_not_hold_up_the_others() -> None:
    producers = Producers()
    producers.update(plan(plain(b"a", producer=Producer(7, 5, 0))).changed)
    found = plan(
        plain(b"b"),
        plain(b"gap", producer=Producer(7, 5, 9)),
        plain(b"fenced", producer=Producer(7, 4, 0)),
        plain(b"c"),
        producers=producers,
    )
    assert isinstance(found.answers[1], OutOfOrderSequence)
    assert isinstance(found.answers[2], ProducerFenced)
    assert list(found.payloads) == [b"b", b"c"]
    assert found.answers[3] == Appended(101, 1)


def test_a_plan_that_is_not_carried_out_changes_nothing() -> None:
    producers = Producers()
    plan(plain(b"a", producer=Producer(7, 0, 0)), producers=producers)
    assert len(producers) == 0


def test_a_batch_that_overlaps_what_is_there_is_refused() -> None:
    producers = Producers()
    producers.update(plan(batch(b"a", b"b", producer=Producer(7, 0, 0))).changed)
    known = plan(batch(b"a", b"b", producer=Producer(7, 0, 0)), producers=producers)
    assert known.answers == [Appended(100, 2)]
    found = plan(batch(b"b", b"c", producer=Producer(7, 0, 1)), producers=producers)
    assert isinstance(found.answers[0], InputError)
    assert not found.size


def test_a_producers_message_counts_from_when_it_was_written() -> None:
    """Not from its own timestamp: old data that is loaded today is remembered as long as any."""
    found = plan(plain(b"a", producer=Producer(7, 0, 0), timestamps_ms=[3]))
    assert found.changed[7][-1].timestamp_ms == 1000
