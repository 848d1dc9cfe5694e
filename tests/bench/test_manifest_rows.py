"""The manifest log's rows, with very little work: each does what it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.manifest import COMMIT_RECORDS, Work, rows

EXPECTED = {
    "manifest/record": 2 * COMMIT_RECORDS,
    "manifest/replay": 500,
    "manifest/open": 1,
}


def test_every_contestant_does_what_it_counts(tmp_path: Path) -> None:
    work = Work(scratch=tmp_path, commits=2, replay_records=500, chunk_records=20)
    for row in rows(work):
        expected = next(count for name, count in EXPECTED.items() if row.name.startswith(name))
        for contestant in row.contestants:
            with contestant.setup() as run:  # type: ignore[union-attr]
                for _ in range(2):
                    done = run()
                    # The marker of the snapshot at close is replayed too, and not by the peer.
                    assert done == pytest.approx(expected, abs=1), (row.name, contestant.name)
