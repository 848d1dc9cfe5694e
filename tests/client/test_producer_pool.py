"""Under which numbers messages are sent."""

from __future__ import annotations

import itertools
import os

from lakebed.base.runner import ThreadRunner
from lakebed.client.producer_pool import FREE_MAX, PARTITIONS_MAX, ProducerPool
from lakebed.keratin.headers import SEQUENCE_COUNT, Producer


def producers() -> ProducerPool:
    return ProducerPool(runner=ThreadRunner(), new_id=itertools.count(1).__next__)


def test_one_that_was_given_back_is_used_again() -> None:
    mine = producers()
    first = mine.take()
    assert mine.take().producer_id == 2
    mine.give_back(first)
    assert mine.take() is first


def test_numbers_go_on_by_topic_and_partition() -> None:
    one = producers().take()
    assert one.at("a", 0) == Producer(1, 0, 0)
    one.advance("a", 0, 5)
    assert one.at("a", 0) == Producer(1, 0, 5)
    assert one.at("a", 1) == one.at("b", 0) == Producer(1, 0, 0)
    one.advance("a", 0, SEQUENCE_COUNT - 3)
    assert one.at("a", 0) == Producer(1, 0, 2)


def test_one_that_knows_too_much_is_let_go() -> None:
    mine = producers()
    worn = mine.take()
    for number in range(PARTITIONS_MAX):
        worn.advance("a", number, 1)
    mine.give_back(worn)
    assert mine.take() is not worn


def test_only_so_many_are_kept() -> None:
    mine = producers()
    for taken in [mine.take() for _ in range(FREE_MAX + 10)]:
        mine.give_back(taken)
    assert len(mine._free.producers) == FREE_MAX


def test_ids_are_random_and_have_63_bits() -> None:
    mine = ProducerPool(runner=ThreadRunner())
    ids = {mine.take().producer_id for _ in range(100)}
    assert len(ids) == 100
    assert 1 << 50 < max(ids) < 1 << 63


def test_a_child_has_none_of_its_parents() -> None:
    mine = producers()
    mine.give_back(mine.take())
    child = os.fork()
    if not child:
        os._exit(0 if mine.take().producer_id == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert mine.take().producer_id == 1
