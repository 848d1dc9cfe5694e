"""The progress line: for a person at a terminal, after a second, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from lakebed.base.simulation.clock import SimulatedClock
from lakebed.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_drawn_after_a_second_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), SimulatedClock()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("verify", clock=clock) as progress:
        progress.update(1, 10)
        assert terminal.getvalue() == ""
        clock.advance(1_500_000_000)
        progress.update(5, 10)
        progress.update(6, 10)  # too soon after the last
        assert terminal.getvalue() == f"\rverify [{'#' * 15}{'-' * 15}] 5 of 10\x1b[K"
        clock.advance(1_000_000_000)
        progress.count(12_345, "records")
    assert terminal.getvalue().endswith("\rverify 12,345 records\x1b[K\r\x1b[K")


def test_a_program_sees_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = io.StringIO(), SimulatedClock()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("verify", clock=clock) as progress:
        clock.advance(5_000_000_000)
        progress.update(1, 2)
        progress.count(1, "records")
    assert stream.getvalue() == ""
