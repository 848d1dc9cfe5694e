"""The rows of the tiers, with very little work: each does what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.row import Row
from bench.tiers import json_records, rows, tiny

pytestmark = pytest.mark.thorough


def expected(row: Row, scratch: Path) -> float:
    work = tiny(scratch)
    payload_bytes = sum(map(len, json_records(work.read_records)))
    counts = {
        "tiers/append at": work.paced_batches * work.batch_records,
        "tiers/append a burst": work.burst_batches * work.batch_records,
        "tiers/read all": payload_bytes,
        "tiers/open and": work.reads,
    }
    return next(count for name, count in counts.items() if row.name.startswith(name))


def test_every_contestant_does_what_it_counts(tmp_path: Path) -> None:
    for row in rows(tiny(tmp_path)):
        for contestant in row.contestants:
            with contestant.setup() as run:  # type: ignore[union-attr]
                for _ in range(2):
                    assert run() == expected(row, tmp_path), (row.name, contestant.name)
