"""What is recognised of what a producer sends again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.keratin.errors import OutOfOrderSequence, ProducerFenced
from lakebed.keratin.format import ProducerRun
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer
from lakebed.keratin.producers import (
    NEW,
    RUNS_MAX,
    Producers,
    Runs,
    Verdict,
    decode_producers,
    encode_producers,
    extended,
    judge,
)

LAST = SEQUENCE_COUNT - 1


def run(sequence: int, count: int, offset: int, *, epoch: int = 3, at_ms: int = 0) -> ProducerRun:
    return ProducerRun(7, epoch, 0, sequence % SEQUENCE_COUNT, count, offset, at_ms)


def sent(sequence: int, *, epoch: int = 3) -> Producer:
    return Producer(7, epoch, sequence % SEQUENCE_COUNT)


def joined(*runs: ProducerRun) -> Runs:
    found: Runs = ()
    for one in runs:
        found = extended(found, one)
    return found


def test_one_that_was_never_seen_may_begin_anywhere() -> None:
    assert judge((), sent(0), 5) == NEW
    assert judge((), sent(1234), 5) == NEW


def test_what_follows_is_new_and_what_was_there_is_known() -> None:
    runs = joined(run(0, 10, 100))
    assert judge(runs, sent(10), 3) == NEW
    assert judge(runs, sent(0), 10) == Verdict(10, 100)
    assert judge(runs, sent(4), 2) == Verdict(2, 104)
    assert judge(runs, sent(9), 1) == Verdict(1, 109)


def test_of_an_append_that_survived_in_part_the_first_messages_are_known() -> None:
    assert judge(joined(run(0, 4, 100)), sent(0), 10) == Verdict(4, 100)


def test_an_append_in_two_parts_is_known_when_it_is_sent_a_third_time() -> None:
    """A crash cut it, others wrote, it was sent again, and the answer was lost."""
    runs = joined(run(0, 4, 100), run(4, 6, 150))
    assert len(runs) == 2
    assert judge(runs, sent(0), 10) == Verdict(10, 100)
    assert judge(runs, sent(2), 5) == Verdict(5, 102)
    assert judge(runs, sent(2), 20) == Verdict(8, 102)


def test_a_gap_is_refused() -> None:
    runs = joined(run(0, 10, 100))
    with pytest.raises(OutOfOrderSequence, match="sequence 11 is out of order, expected 10"):
        judge(runs, sent(11), 1)
    with pytest.raises(OutOfOrderSequence):
        judge(joined(run(50, 10, 100)), sent(49), 1)


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero() -> None:
    runs = joined(run(0, 10, 100, epoch=3))
    with pytest.raises(
        ProducerFenced,
        match="epoch 2 has ended: a producer with the same id has taken over with epoch 3",
    ):
        judge(runs, sent(10, epoch=2), 1)
    assert judge(runs, sent(0, epoch=4), 1) == NEW
    with pytest.raises(OutOfOrderSequence):
        judge(runs, sent(10, epoch=4), 1)
    runs = extended(runs, run(0, 1, 200, epoch=4))
    assert runs == (run(0, 1, 200, epoch=4),), "the old epoch's messages are not known any more"


def test_sequences_start_over_at_their_end() -> None:
    runs = joined(run(LAST - 1, 2, 100))
    assert judge(runs, sent(0), 1) == NEW
    runs = joined(run(LAST - 1, 5, 100))
    assert judge(runs, sent(LAST), 3) == Verdict(3, 101)
    assert judge(runs, sent(1), 1) == Verdict(1, 103)
    assert judge(runs, sent(3), 1) == NEW
    with pytest.raises(OutOfOrderSequence):
        judge(runs, sent(4), 1)
    with pytest.raises(OutOfOrderSequence):
        judge(runs, sent(LAST - 2), 1)


def test_runs_are_joined_where_both_numbers_go_on() -> None:
    assert joined(run(0, 2, 100), run(2, 3, 102, at_ms=9)) == (run(0, 5, 100, at_ms=9),)
    assert len(joined(run(0, 2, 100), run(2, 3, 103))) == 2
    assert joined(run(0, 2, 100), run(5, 1, 102)) == (run(5, 1, 102),), "it had been forgotten"


def test_a_run_is_never_so_long_that_sequences_mean_two_things() -> None:
    half = SEQUENCE_COUNT // 2
    runs = joined(run(0, half, 0), run(half, half - 1, half))
    assert [one.message_count for one in runs] == [half, half - 1]
    assert judge(runs, sent(half + 5), 1) == Verdict(1, half + 5)
    runs = extended(runs, run(LAST, 2, LAST))
    assert judge(runs, sent(0), 1) == Verdict(1, SEQUENCE_COUNT), "the newer of the two"


def test_the_last_few_runs_are_kept() -> None:
    runs = joined(*(run(number, 1, 10 * number) for number in range(RUNS_MAX + 3)))
    assert len(runs) == RUNS_MAX
    for number in range(3, RUNS_MAX + 3):
        assert judge(runs, sent(number), 1) == Verdict(1, 10 * number)
    with pytest.raises(OutOfOrderSequence):
        judge(runs, sent(2), 1)


def test_those_who_wrote_nothing_for_long_are_forgotten() -> None:
    producers = Producers([run(0, 1, 0, at_ms=100)._replace(producer_id=1)])
    producers.add(run(0, 1, 1, at_ms=200)._replace(producer_id=2))
    assert producers.forget_before(101) == 1
    assert len(producers) == 1
    assert producers.runs_of(1) == ()
    assert producers.runs_of(2)


def test_of_too_many_those_that_were_quiet_longest_are_forgotten() -> None:
    runs = [run(0, 1, at_ms, at_ms=at_ms)._replace(producer_id=at_ms) for at_ms in range(10, 20)]
    producers = Producers(runs)
    assert producers.forget_before(0, kept=[10], count_max=4) == 5
    assert [found.producer_id for found in producers.all_runs()] == [10, 16, 17, 18, 19]


def test_too_many_that_a_scan_found_at_one_moment_are_forgotten_down_to_the_limit() -> None:
    runs = [run(0, 1, number, at_ms=5)._replace(producer_id=number) for number in range(10)]
    producers = Producers(runs)
    assert producers.forget_before(0, count_max=4) == 6
    assert [found.producer_id for found in producers.all_runs()] == [6, 7, 8, 9]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1), st.data())
def test_every_stretch_of_known_messages_is_where_it_was_written(
    parts: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Against a list of all messages: what is known is right, and what is kept is known."""
    first = data.draw(st.integers(SEQUENCE_COUNT - 60, SEQUENCE_COUNT - 1))
    places: list[int] = []  # the offset of each message, in the order of sequences
    runs: Runs = ()
    offset = 0
    for count, others in parts:
        runs = extended(runs, run(first + len(places), count, offset))
        places += range(offset, offset + count)
        offset += count + others
    kept = sum(one.message_count for one in runs)
    start = data.draw(st.integers(len(places) - kept, len(places) - 1))
    count = data.draw(st.integers(1, 50))
    known = min(count, len(places) - start)
    assert judge(runs, sent(first + start), count) == Verdict(known, places[start])
    assert judge(runs, sent(first + len(places)), count) == NEW


RUNS = st.builds(
    ProducerRun,
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 16) - 1),
    st.just(0),
    st.integers(0, LAST),
    st.integers(1, 1 << 30),
    st.integers(0, 1 << 62),
    st.integers(0, 1 << 62),
)


@given(st.lists(RUNS, max_size=6), st.integers(0, (1 << 63) - 1))
def test_a_snapshot_round_trips(runs: list[ProducerRun], base_offset: int) -> None:
    data = encode_producers(runs, base_offset=base_offset)
    assert decode_producers(data, path="here", base_offset=base_offset) == runs
