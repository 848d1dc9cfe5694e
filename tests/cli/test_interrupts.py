"""An interrupt that waits for the step under way."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from lakebed.cli.interrupts import HeldInterrupts


@pytest.fixture(autouse=True)
def usual_handling() -> Iterator[None]:
    """As in a new process: a library that an earlier test used may have set its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def held(work: Callable[[HeldInterrupts], None]) -> None:
    with HeldInterrupts() as interrupts:
        work(interrupts)


def test_an_interrupt_waits_for_the_end_of_a_step() -> None:
    done = []

    def work(interrupts: HeldInterrupts) -> None:
        interrupt()
        done.append("write")
        interrupts.raise_kept()
        done.append("next")

    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == ["write"]


def test_one_that_was_kept_is_raised_at_the_end() -> None:
    done = []

    def work(_interrupts: HeldInterrupts) -> None:
        interrupt()
        done.append("write")

    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == ["write"]


def test_what_waits_for_others_is_ended_at_once() -> None:
    done = []

    def work(interrupts: HeldInterrupts) -> None:
        with interrupts.let_through():
            interrupt()
            done.append("read")

    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == []


def test_one_that_was_kept_ends_what_waits_before_it_begins() -> None:
    done = []

    def work(interrupts: HeldInterrupts) -> None:
        interrupt()
        with interrupts.let_through():
            done.append("read")

    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == []


def test_a_second_one_does_not_wait() -> None:
    done = []

    def work(_interrupts: HeldInterrupts) -> None:
        interrupt()
        interrupt()
        done.append("write")

    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == []


def test_an_error_is_not_hidden_by_an_interrupt() -> None:
    def work(_interrupts: HeldInterrupts) -> None:
        interrupt()
        raise ValueError("odd")

    with pytest.raises(ValueError, match="odd"):
        held(work)


def test_the_usual_handling_is_back_afterwards() -> None:
    with HeldInterrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_handled_them_before_is_asked_once_they_are_let_through() -> None:
    done = []

    def cancel_jobs(_number: int, _frame: FrameType | None) -> None:
        done.append("jobs cancelled")
        raise KeyboardInterrupt

    def work(interrupts: HeldInterrupts) -> None:
        interrupt()
        done.append("write")
        with contextlib.suppress(KeyboardInterrupt):
            interrupts.raise_kept()
        with interrupts.let_through():
            interrupt()

    signal.signal(signal.SIGINT, cancel_jobs)
    with pytest.raises(KeyboardInterrupt):
        held(work)
    assert done == ["write", "jobs cancelled"]
    assert signal.getsignal(signal.SIGINT) is cancel_jobs


def test_ignored_interrupts_stay_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with HeldInterrupts():
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_in_another_thread_it_does_nothing() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with HeldInterrupts() as interrupts, interrupts.let_through():
                pass
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
