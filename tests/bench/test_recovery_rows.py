"""The row of recovering after a kill: every contestant runs, with little to recover."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness import QUICK, measure
from bench.recovery import Work, rows

pytestmark = pytest.mark.process


def test_every_contestant_recovers(tmp_path: Path) -> None:
    (row,) = rows(Work(message_count=20_000, scratch=tmp_path))
    result = measure(row, QUICK)
    assert all(score.rates for score in result.scores)
    assert list(tmp_path.iterdir()) == []
