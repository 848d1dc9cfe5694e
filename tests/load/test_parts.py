"""The parts of the load test notice what they are there for."""

from __future__ import annotations

import os

import pytest

from lakebed.base.units import MIB
from tests.load.memory import GROWTH_DESCRIPTORS_MAX, sample, trend
from tests.load.messages import name_of, value_of
from tests.load.traffic import Marks, Traffic, Window


def test_memory_that_grows_and_grows_is_not_flat() -> None:
    assert not trend("resident", [(100 + second) * MIB for second in range(120)]).is_flat


def test_memory_that_grows_in_the_first_quarter_alone_is_flat() -> None:
    sizes = [(100 + 5 * min(second, 30)) * MIB for second in range(120)]
    assert trend("resident", sizes).is_flat


def test_a_moment_of_more_memory_is_flat_and_told() -> None:
    found = trend("resident", [100 * MIB] * 100 + [900 * MIB] + [100 * MIB] * 20)
    assert found.is_flat
    assert str(found) == "resident: 100.0 -> 100.0 MiB, at most 900.0 MiB"


def test_descriptors_that_stay_open_are_not_flat() -> None:
    assert trend("descriptors", [60] * 60 + [60 + GROWTH_DESCRIPTORS_MAX] * 60).is_flat
    assert not trend("descriptors", [60] * 60 + [61 + GROWTH_DESCRIPTORS_MAX] * 60).is_flat


def test_a_process_has_memory_and_descriptors() -> None:
    found = sample(os.getpid())
    assert found.resident_bytes >= found.own_bytes > 0
    assert found.descriptors > 2


@pytest.mark.parametrize(
    ("numbers", "is_good"), [([], True), ([2, 0, 1], True), ([0, 2], False), ([0, 1, 1], False)]
)
def test_marks_tell_what_is_missing_and_what_came_twice(numbers: list[int], is_good: bool) -> None:
    marks = Marks()
    for number in numbers:
        marks.add(number)
    assert marks.are_once_each() is is_good


def test_a_message_that_was_changed_is_noticed() -> None:
    value = value_of("steady", 7)
    assert name_of(value) == ("steady", 7)
    with pytest.raises(AssertionError):
        name_of(value.replace(b"7", b"8", 1))


def test_a_worker_that_fails_ends_the_load_and_is_told() -> None:
    traffic = Traffic()
    window = Window(traffic, ("nobody",), ahead_max=1)
    window.give(1)

    def wait() -> None:
        assert not window.wait_for_room()

    def fail() -> None:
        raise ValueError("an answer that was not expected")

    traffic.start("waits", wait)
    traffic.start("fails", fail)
    traffic.hold(60.0, is_enough=lambda: False)
    traffic.join()
    [failure] = traffic.failures
    assert failure.startswith("fails: ")
    assert "an answer that was not expected" in failure


def test_who_gives_waits_for_the_slowest() -> None:
    traffic = Traffic()
    window = Window(traffic, ("quick", "slow"), ahead_max=10)
    window.give(10)
    window.take("quick", 10)
    passed: list[int] = []

    def give() -> None:
        assert window.wait_for_room()
        passed.append(window.taken)

    traffic.start("gives", give)
    window.take("slow", 1)
    traffic.join()
    assert passed == [1]
    assert not traffic.failures
