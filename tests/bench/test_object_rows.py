"""The rows of the object store, with very little work, and the stores they compare.

Each contestant does what it counts, and what a store was given it gives back. No test here looks
at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from bench.objects import STORES, Work, rows, tiny
from bench.objects_stores import (
    BLOB_BYTES,
    LakebedObjects,
    ObjectStore,
    OpenObjects,
    SqliteBlobs,
    fill_metadata,
)
from bench.row import Resting, Run

pytestmark = pytest.mark.thorough

CASES = [(row.name, one.name) for row in rows(tiny(Path())) for one in row.contestants]


def expected(row_name: str, work: Work) -> float:
    """What one run of each contestant must say it did."""
    puts = {
        f"objects/durable put 1 KiB/{threads} threads": n for threads, n in work.puts_by_threads
    }
    large_bytes = work.large_count * work.large_bytes
    return {
        **puts,
        "objects/get 1 KiB": work.get_count,
        "objects/1 KiB range of 1 GiB": work.range_count,
        "objects/put 16 MiB": large_bytes,
        "objects/get 16 MiB": large_bytes,
        "objects/list page of 1,000 keys": work.page_count,
    }[row_name]


@pytest.mark.parametrize(("row_name", "contestant_name"), CASES)
def test_a_run_does_the_work_that_it_counts(
    row_name: str, contestant_name: str, tmp_path: Path
) -> None:
    work = tiny(tmp_path)
    with running(row_name, contestant_name, work) as run:
        for _ in range(2):
            assert run() == expected(row_name, work)
            if isinstance(run, Resting):
                run.rest()
    assert not list(tmp_path.iterdir()), "something was left behind"


@pytest.mark.parametrize("open_objects", STORES.values(), ids=STORES)
def test_a_store_gives_back_what_it_was_given(open_objects: OpenObjects, tmp_path: Path) -> None:
    large = bytes(range(256)) * (BLOB_BYTES // 256) + b"the last bytes"
    with closing(open_objects(tmp_path)) as store:
        store.put("small", b"small")
        store.put("large", large)
        store.put("small", b"other")
        assert store.get("small") == b"other"
        assert store.get("large") == large
        across = BLOB_BYTES - 3
        assert store.get_range("large", across, 10) == large[across : across + 10]
        assert list(store.list_page("")) == [("large", len(large)), ("small", 5)]
        assert list(store.list_page("large")) == [("small", 5)]


@pytest.mark.parametrize("open_objects", STORES.values(), ids=STORES)
def test_a_page_has_no_more_than_a_thousand_keys(open_objects: OpenObjects, tmp_path: Path) -> None:
    names = [f"{number:04d}" for number in range(1_005)]
    with closing(filled(open_objects, names, tmp_path)) as store:
        assert [key for key, _ in store.list_page("")] == names[:1_000]
        assert [key for key, _ in store.list_page(names[999])] == names[1_000:]


def test_objects_that_were_filled_directly_are_listed_as_others(tmp_path: Path) -> None:
    fill_metadata(tmp_path, iter(["b", "a"]))
    with closing(LakebedObjects(tmp_path)) as store:
        store.wait_until_idle()
        assert list(store.list_page("")) == [("a", 1_024), ("b", 1_024)]


def filled(open_objects: OpenObjects, names: list[str], folder: Path) -> ObjectStore:
    """The quickest way that each has."""
    if open_objects is LakebedObjects:
        fill_metadata(folder, iter(names))
        return LakebedObjects(folder)
    store = open_objects(folder)
    if isinstance(store, SqliteBlobs):
        store.fill(iter(names))
        return store
    for name in names:
        (folder / name).touch()
    return store


@contextmanager
def running(row_name: str, contestant_name: str, work: Work) -> Iterator[Run]:
    (contestant,) = (
        contestant
        for row in rows(work)
        if row.name == row_name
        for contestant in row.contestants
        if contestant.name == contestant_name
    )
    with ExitStack() as stack:
        made = contestant.setup()
        if isinstance(made, AbstractContextManager):
            made = stack.enter_context(made)
        yield made
