"""The uploaded chunks of a manifest log: which of them are lost, and which are damaged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from lakebed.aof.log import Aof
from lakebed.aof.manifest.records import CustomEvent
from lakebed.store.damage_marks import NamedVersion
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.manifest_verification import ManifestReport
from lakebed.store.number_list import number_list
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import write_segments
from tests.store.lake_tiers import damage_object, keys, open_store, tier2


def upload_chunks(log: Aof, count: int) -> None:
    journal = log.manifest
    assert journal is not None
    for number in range(count):
        journal.append(CustomEvent(1, b"%d" % number), segment_id=0, logical_offset=0)
        journal.rotate()
    journal.commit()
    log.tiers.chunks(journal).step(journal)


def remove_chunks(log: Aof) -> None:
    """Removes all uploaded chunks but the newest from the disk."""
    assert log.manifest is not None
    log.manifest.take_snapshot()
    log.manifest.take_snapshot()
    log.tiers.chunks(log.manifest).step(log.manifest)


def chunk_keys(store: Store) -> list[str]:
    return [key for key in keys(store) if key.endswith(".mlog")]


def mark_damaged(root: Path, store: Store, damaged: Iterable[str]) -> None:
    for key in damaged:
        damage_object(root, store, key)
        store.maintenance.mark_objects([NamedVersion(BUCKET, key, "null")])


def verified(store: Store) -> ManifestReport:
    return store.maintenance.verify_manifest("orders")


def test_a_damaged_object_of_a_chunk_is_not_noted_as_lost(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.log("orders")
        write_segments(log, 1)
        upload_chunks(log, 8)
        remove_chunks(log)
        first, second, *_ = chunk_keys(store)
        assert verified(store).notes == []
        mark_damaged(tmp_path, store, [first])
        tier2(store).delete(second)
        report = verified(store)
        assert report.notes == [
            "1 of the first 6 chunks are neither on disk nor in Tier 2: 1",
            "1 of the first 6 chunks are damaged in Tier 2: 0",
        ]
        assert report.problems == []


def test_a_damaged_object_of_a_chunk_on_disk_is_a_problem(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        log = store.log("orders")
        write_segments(log, 1)
        upload_chunks(log, 3)
        mark_damaged(tmp_path, store, chunk_keys(store)[:1])
        [problem] = verified(store).problems
        assert "the object of chunk 0 is damaged: " in str(problem)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([9, 0], "0, 9"),
        ([0, 2, 3, 4, 9, 10], "0, 2 to 4, 9 to 10"),
        (range(0, 20, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18"),
        ([*range(0, 22, 2), 21], "0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 2 more"),
        (range(1000), "0 to 999"),
    ],
)
def test_a_list_of_numbers_names_ranges_and_the_count_of_the_rest(
    numbers: Iterable[int], text: str
) -> None:
    assert number_list(numbers) == text
