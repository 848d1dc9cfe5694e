"""Things opened by key: once each, together, in the background, and not after they are closed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from lakebed.base.errors import Closed, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.runner.open_registry import OpenRegistry


@pytest.fixture
def runner() -> Iterator[ThreadRunner]:
    with ThreadRunner() as runner:
        yield runner


def test_a_thing_is_opened_once_for_all_threads(runner: ThreadRunner) -> None:
    calls: list[str] = []
    go_on = threading.Event()

    def open_one(key: str) -> object:
        calls.append(key)
        go_on.wait()
        return object()

    opened = OpenRegistry(open_one, name="things", runner=runner)
    things: list[object] = []
    threads = [threading.Thread(target=lambda: things.append(opened.get("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join()
    assert calls == ["a"]
    assert things == [opened.get("a")] * 8


def test_a_failure_reaches_those_that_wait_and_is_tried_again(runner: ThreadRunner) -> None:
    tries: list[int] = []

    def open_one(key: int) -> str:
        tries.append(key)
        if key == 2 and tries.count(2) < 3:
            raise NotFound(f"no {key}")
        return str(key)

    opened = OpenRegistry(open_one, name="things", runner=runner)
    for _ in range(2):
        with pytest.raises(NotFound, match="no 2"):
            opened.get_all([1, 2, 3])
    assert opened.opened() == {1: "1", 3: "3"}
    assert opened.get_all([1, 2, 3]) == ["1", "2", "3"]
    assert sorted(tries) == [1, 2, 2, 2, 3]


def test_what_cannot_be_opened_in_the_background_is_logged(
    runner: ThreadRunner, caplog: pytest.LogCaptureFixture
) -> None:
    def open_one(key: int) -> str:
        if key % 2:
            raise NotFound(f"no {key}")
        return str(key)

    opened = OpenRegistry(open_one, name="things", runner=runner)
    opened.start_all(range(6))
    runner.close()
    assert opened.opened() == {0: "0", 2: "2", 4: "4"}
    assert sorted(caplog.messages) == [
        f"things: {key} was not opened: no {key}" for key in (1, 3, 5)
    ]


def test_what_was_being_opened_is_handed_to_the_caller_of_close(runner: ThreadRunner) -> None:
    is_begun, go_on = threading.Event(), threading.Event()

    def open_one(key: int) -> str:
        is_begun.set()
        go_on.wait()
        return str(key)

    opened = OpenRegistry(open_one, name="things", runner=runner)
    opened.start_all([1])
    is_begun.wait()
    left: list[str] = []
    closing = threading.Thread(target=lambda: left.extend(opened.close()))
    closing.start()
    go_on.set()
    closing.join()
    assert left == ["1"]
    assert opened.opened() == {}
    for keys in ([1], [2]):
        with pytest.raises(Closed, match="things"):
            opened.get_all(keys)


def test_the_first_of_several_that_is_open_is_found_while_another_is_stuck() -> None:
    go_on = threading.Event()

    def open_one(key: int) -> int:
        if key == 0:
            assert go_on.wait(60)
        return key

    with ThreadRunner() as runner:
        opened = OpenRegistry(open_one, name="things", runner=runner)
        opened.start_all(range(3))
        assert opened.first_open([0, 1, 2]) in (1, 2)
        assert opened.first_open([0], timeout_ns=1_000_000) is None
        go_on.set()
        assert opened.first_open([0]) == 0
        assert opened.first_open([7]) == 7, "nobody is opening it: the caller does"


def test_closing_wakes_who_waits_for_the_first_that_is_open() -> None:
    go_on, outcomes = threading.Event(), []
    with ThreadRunner() as runner:
        opened: OpenRegistry[int, bool] = OpenRegistry(
            lambda _: go_on.wait(60), name="a", runner=runner
        )
        opened.start_all([0])

        def wait() -> None:
            try:
                outcomes.append(opened.first_open([0]))
            except Closed:
                outcomes.append(None)

        waiting = threading.Thread(target=wait)
        closing = threading.Thread(target=opened.close)
        waiting.start()
        closing.start()
        waiting.join(60)
        assert outcomes == [None], "before that which is being opened is open"
        go_on.set()
        closing.join(60)
        assert not closing.is_alive()
