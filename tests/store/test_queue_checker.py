"""The queue checker finds what is planted, and nothing in real runs with kill -9 in between."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fakes.queue_checker import Entry, Held, check, decode, encode
from tests.tidy.repository import ROOT


class Story:
    """A history, told call by call."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now_ms = 0.0

    def call(
        self, operation: str, *messages: Held, answer: tuple[Held, ...] = (), end: str = "ok"
    ) -> Story:
        name = f"call {len(self.entries)}"
        self.now_ms += 1
        self.entries.append(Entry(self.now_ms, "invoke", operation, name, messages))
        self.now_ms += 1
        if end:
            self.entries.append(Entry(self.now_ms, end, operation, name, answer))
        return self

    def produce(self, *held: Held, end: str = "ok") -> Story:
        unplaced = [one._replace(offset=-1) for one in held]
        return self.call("produce", *unplaced, answer=held, end=end)

    def lease(self, *held: Held, end: str = "ok") -> Story:
        return self.call("lease", answer=held, end=end)

    def kinds(self, *, margin_ms: float = 0) -> list[str]:
        return [problem.kind for problem in check(self.entries, margin_ms=margin_ms)]


ONE, TWO = Held(0, 0, "a:0"), Held(0, 1, "a:1")


def leased(held: Held, epoch: int, *, count: int = 1, deadline_ms: float = 0) -> Held:
    return held._replace(epoch=epoch, delivery_count=count, deadline_ms=deadline_ms)


def both_sent() -> Story:
    return Story().produce(ONE).produce(TWO)


def test_a_good_history_has_no_problems() -> None:
    story = both_sent().lease(leased(ONE, 1, deadline_ms=100), leased(TWO, 1, deadline_ms=100))
    story.call("ack", leased(ONE, 1)).call("nack", leased(TWO, 1))
    story.lease(leased(TWO, 2, count=2, deadline_ms=100)).call("ack", leased(TWO, 2))
    assert check(story.entries) == []


def test_what_nobody_knows_is_no_problem() -> None:
    story = both_sent().produce(Held(0, 2, "a:2"), end="info").produce(Held(0, 3, "a:3"), end="")
    story.lease(end="").lease(leased(ONE, 2, count=2), leased(TWO, 2, count=2))
    story.call("ack", leased(ONE, 2), leased(TWO, 2), end="info")
    story.lease(leased(TWO, 3, count=3)).call("ack", leased(TWO, 3))
    assert check(story.entries) == []


def test_an_acknowledged_message_that_is_never_delivered_is_lost() -> None:
    story = both_sent().lease(leased(TWO, 1)).call("ack", leased(TWO, 1))
    assert story.kinds() == ["lost"]
    assert check(story.entries, elsewhere=["a:0"]) == []


def test_a_message_that_was_given_back_and_never_came_again_is_lost() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1)).call("nack", leased(ONE, 1))
    assert story.kinds() == ["lost"]


def test_a_message_leased_behind_its_ack_is_duplicated() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1)).call("ack", leased(ONE, 1))
    story.lease(leased(ONE, 2, count=2))
    assert story.kinds() == ["duplicated"]


def test_a_message_that_stands_in_the_log_twice_is_duplicated() -> None:
    again = ONE._replace(offset=1)
    story = Story().produce(ONE).lease(leased(ONE, 1), leased(again, 1))
    story.call("ack", leased(ONE, 1), leased(again, 1))
    assert story.kinds() == ["duplicated"]


def test_a_first_delivery_before_that_of_a_lower_offset_is_reordered() -> None:
    story = both_sent().lease(leased(TWO, 1)).lease(leased(ONE, 2))
    story.call("ack", leased(TWO, 1), leased(ONE, 2))
    assert story.kinds() == ["reordered"]


def test_messages_of_a_producer_in_another_order_are_reordered() -> None:
    first, second = Held(0, 0, "a:1"), Held(0, 1, "a:0")
    story = Story().produce(second).produce(first).lease(leased(first, 1), leased(second, 1))
    story.call("ack", leased(first, 1), leased(second, 1))
    assert story.kinds() == ["reordered"]


def test_an_ack_under_an_epoch_that_was_over_is_stale() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1)).lease(leased(ONE, 2, count=2))
    story.call("ack", leased(ONE, 1))
    assert story.kinds() == ["stale"]


def test_a_refused_ack_under_an_old_epoch_is_as_it_should_be() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1)).lease(leased(ONE, 2, count=2))
    story.call("ack", leased(ONE, 1), end="fail").call("ack", leased(ONE, 2))
    assert check(story.entries) == []


def test_an_ack_of_what_another_settled_says_so_once_more() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1)).lease(leased(ONE, 2, count=2))
    story.call("ack", leased(ONE, 2)).call("ack", leased(ONE, 1))
    assert check(story.entries) == []
    story.lease(leased(ONE, 3, count=3)).call("ack", leased(ONE, 3))
    assert set(story.kinds()) == {"duplicated"}


def test_two_holders_at_one_time_are_stale() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1, deadline_ms=50))
    story.lease(leased(ONE, 2, count=2, deadline_ms=50)).call("ack", leased(ONE, 2))
    assert story.kinds() == ["stale"]
    assert story.kinds(margin_ms=100) == []


def test_an_extended_lease_counts_until_its_new_deadline() -> None:
    story = Story().produce(ONE).lease(leased(ONE, 1, deadline_ms=5))
    held = leased(ONE, 1, deadline_ms=50)
    story.call("extend", held, answer=(held,))
    story.lease(leased(ONE, 2, count=2, deadline_ms=50)).call("ack", leased(ONE, 2))
    assert story.kinds() == ["stale"]


def test_an_epoch_that_comes_again_is_stale() -> None:
    story = both_sent().lease(leased(ONE, 1)).lease(leased(TWO, 1))
    story.call("ack", leased(ONE, 1), leased(TWO, 1))
    assert story.kinds() == ["stale"]


def test_a_message_that_nobody_sent_or_that_changed_is_unexpected() -> None:
    strange = Held(0, 5, "b:0")
    story = Story().produce(ONE).lease(leased(ONE, 1), leased(strange, 1))
    story.call("ack", leased(ONE, 1), leased(strange, 1))
    assert story.kinds() == ["unexpected"]
    story = both_sent().lease(leased(ONE._replace(value="a:1"), 1))
    story.call("ack", leased(ONE, 1), leased(TWO, 1))
    assert story.kinds() == ["unexpected"]


def test_a_history_is_read_as_it_was_written_and_a_cut_line_is_left_out() -> None:
    story = both_sent().lease(leased(ONE, 1), leased(TWO, 1))
    data = b"".join(map(encode, story.entries))
    assert list(decode(data)) == story.entries
    assert list(decode(data[:-3])) == story.entries[:-1]


# Real processes.

LIVES = 3


def run_lives(root: Path, seed: int, *, lives: int, ack_level: str) -> list[Entry]:
    """Brokers that kill themselves with SIGKILL, one behind the other; then one that drains."""
    print(f"seed {seed}")
    random = Random(seed)
    entries: list[Entry] = []
    for life in range(lives + 1):
        history = root / f"history-{life}"
        delay_s = 0.0 if life == lives else random.uniform(0.05, 0.8)
        arguments = map(str, (root / "store", history, seed, life, delay_s, ack_level))
        done = subprocess.run(
            [sys.executable, "-m", "tests.store.queue_broker", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == (-9 if delay_s else 0), done.stderr
        entries += decode(history.read_bytes())
    return entries


def check_lives(root: Path, seed: int, *, lives: int, ack_level: str) -> None:
    entries = run_lives(root, seed, lives=lives, ack_level=ack_level)
    # The deadlines are of a clock that was set by the wall clock when the store was opened.
    assert check(entries, margin_ms=20) == [], f"seed {seed}"
    for operation in ("produce", "lease", "ack", "nack", "extend"):
        ended = [e for e in entries if e.operation == operation and e.kind == "ok"]
        assert len(ended) > lives, f"there was hardly any {operation}"


@pytest.mark.process
@pytest.mark.parametrize("ack_level", ["after_fsync", "after_write"])
def test_kills_lose_duplicate_and_reorder_nothing(tmp_path: Path, ack_level: str) -> None:
    check_lives(tmp_path, 1, lives=LIVES, ack_level=ack_level)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_kills_lose_duplicate_and_reorder_nothing(tmp_path: Path) -> None:
    for seed in range(100, 130):
        for ack_level in ("after_fsync", "after_write"):
            folder = tmp_path / f"{seed}-{ack_level}"
            folder.mkdir()
            check_lives(folder, seed, lives=12, ack_level=ack_level)
