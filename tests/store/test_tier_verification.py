"""Copies of segments in colder tiers are checked, even where `log.json` is lost or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.store.log_check import LogCheck, join_log, plan_log
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from lakebed.store.verification import Problem
from tests.aof.tiers.tiered_logs import write_segments
from tests.store.lake_tiers import CONFIG


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of two segments, in Tier 1 and Tier 2, without the warm file of the first."""
    root = tmp_path / "root"
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segments(log, 2)
        log.tiers.upload([0, 1])
        log.tiers.evict([0, 1])
    min((root / "aof/orders/warm").glob("*.zst")).unlink()
    return root


def missing(problems: list[Problem]) -> list[str]:
    return [found.problem for found in problems if "the copy of segment" in found.problem]


def test_a_missing_copy_is_reported_although_log_json_is_lost(root: Path) -> None:
    (root / "aof/orders/log.json").unlink()
    expected = ["the copy of segment 0 is missing"]
    with ReadOnlyStore(root) as store:
        log = store.maintenance.verify_log("orders", tier2=True)
        assert missing(log.problems) == expected
        assert (log.segments, log.objects) == (2, 2), "the rest is checked"
        assert missing(store.maintenance.verify_manifest("orders").problems) == expected
    report = verify_store(root)
    assert not report.unchecked
    assert missing(report.logs[0].report.problems) == expected


def test_a_missing_copy_is_reported_although_log_json_is_damaged_meanwhile(root: Path) -> None:
    with ReadOnlyStore(root) as store:
        plan = plan_log(store, "orders", tier2=True)
        (root / "aof/orders/log.json").write_text("{}")
        check = LogCheck(store, "orders")
        found = [check.run(piece) for piece in plan.pieces]
    report = join_log(plan, [finding for finding in found if finding is not None])
    assert missing(report.problems) == ["the copy of segment 0 is missing"]
