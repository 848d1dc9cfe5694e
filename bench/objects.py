"""Objects: durable puts, gets, ranges and listings, beside SQLite and plain files.

`bench.objects_stores` says what each of them does. A put is of a new object, its key is random;
what is read comes from the page cache, in one thread.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.aof_stores import SCRATCH, scratch_folder
from bench.commit import Crew
from bench.objects_stores import (
    PAGE_KEYS,
    LakebedObjects,
    ObjectStore,
    OpenObjects,
    PlainFiles,
    SqliteBlobs,
    fill_metadata,
)
from bench.row import Contestant, Row, Run
from lakebed.base.units import GIB, KIB, MIB
from lakebed.kernels.checksum import blake3
from lakebed.seglake.config import SeglakeConfig

HASH_LIMIT = "limit: MD5 and BLAKE3"


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    puts_by_threads: tuple[tuple[int, int], ...] = ((1, 400), (16, 1_600), (64, 3_200))
    put_rest_s: float = 0.3
    get_objects: int = 10_000
    get_count: int = 1_000
    range_object_bytes: int = 1 * GIB
    range_count: int = 20
    large_bytes: int = 16 * MIB
    large_count: int = 4
    large_rest_s: float = 0.3
    listed_few: int = 1_000
    listed_many: int = 1_000_000
    page_count: int = 4


FULL = Work()

STORES: dict[str, OpenObjects] = {
    "lakebed": LakebedObjects,
    "SQLite": SqliteBlobs,
    "plain files": PlainFiles,
}
_SetUp = Callable[[OpenObjects, Work], AbstractContextManager[Run]]
UNCACHED = partial(LakebedObjects, config=SeglakeConfig(cache_bytes=0))


def rows(work: Work = FULL) -> Iterator[Row]:
    for threads, count in work.puts_by_threads:
        yield put_row(f"objects/durable put 1 KiB/{threads} threads", threads, count, work)
    yield get_row("objects/get 1 KiB", work)
    yield range_row("objects/1 KiB range of 1 GiB", work)
    yield large_put_row("objects/put 16 MiB", work)
    yield large_get_row("objects/get 16 MiB", work)
    yield list_row("objects/list page of 1,000 keys", work)


def random_key(source: random.Random) -> str:
    """Keys come in no order, as names of uploads do. Threads can share a source."""
    return f"{source.getrandbits(96):024x}"


# Puts of small objects.


def put_row(name: str, threads: int, count: int, work: Work) -> Row:
    return Row(
        name=name,
        unit="puts",
        baseline="SQLite",
        burst_rest_s=work.put_rest_s,
        note=(
            f"turns of {count:,} puts; before each all rest, untimed, until the manifests of "
            "the bucket are written as files"
        ),
        contestants=[
            Contestant(label, partial(_put_small, open_objects, threads, count, work))
            for label, open_objects in STORES.items()
        ],
    )


class Burst:
    """A run that lets the store end what it put off."""

    def __init__(self, run: Run, store: ObjectStore) -> None:
        self._run = run
        self._store = store

    def __call__(self) -> float:
        return self._run()

    def rest(self) -> None:
        self._store.wait_until_idle()


@contextmanager
def _put_small(open_objects: OpenObjects, threads: int, count: int, work: Work) -> Iterator[Run]:
    with _opened(open_objects, work) as store:
        crew = Crew(threads)
        source = random.Random()
        data = random.randbytes(KIB)

        def run() -> float:
            crew.work(count // threads, lambda: store.put(random_key(source), data))
            return threads * (count // threads)

        try:
            yield Burst(run, store)
        finally:
            crew.dismiss()


# Gets.


def get_row(name: str, work: Work) -> Row:
    stores: dict[str, OpenObjects] = {"lakebed, no chunks cached": UNCACHED, **STORES}
    return Row(
        name=name,
        unit="gets",
        baseline="SQLite",
        note=f"random ones of {work.get_objects:,} objects",
        contestants=[
            Contestant(label, partial(_get_small, open_objects, work))
            for label, open_objects in stores.items()
        ],
    )


@contextmanager
def _get_small(open_objects: OpenObjects, work: Work) -> Iterator[Run]:
    with _opened(open_objects, work) as store:
        source = random.Random(1)
        names = [random_key(source) for _ in range(work.get_objects)]
        _fill(store, names, KIB)
        chance = random.Random(2)

        def run() -> float:
            wanted = chance.choices(names, k=work.get_count)
            return sum(len(store.get(name)) for name in wanted) / KIB

        yield run


def range_row(name: str, work: Work) -> Row:
    near = min(2 * MIB, work.range_object_bytes)
    return Row(
        name=name,
        unit="ranges",
        baseline="plain files",
        note=(
            "at random places of the whole object, which is larger than the cache of chunks, or "
            "of its first 2 MiB; the bucket verifies 4 MiB for a chunk that is not cached"
        ),
        contestants=[
            *(
                Contestant(label, partial(_get_ranges, open_objects, work.range_object_bytes, work))
                for label, open_objects in STORES.items()
            ),
            Contestant(
                "lakebed, near one another", partial(_get_ranges, LakebedObjects, near, work)
            ),
        ],
    )


@contextmanager
def _get_ranges(open_objects: OpenObjects, within_bytes: int, work: Work) -> Iterator[Run]:
    with _opened(open_objects, work) as store:
        store.put("large", _large_body(work.range_object_bytes))
        chance = random.Random(4)

        def run() -> float:
            for _ in range(work.range_count):
                start = chance.randrange(within_bytes - KIB)
                assert len(store.get_range("large", start, KIB)) == KIB
            return work.range_count

        yield run


def _large_body(size: int) -> bytes:
    """No two of its chunks are alike."""
    source = random.Random(3)
    return b"".join(source.randbytes(min(MIB, size - at)) for at in range(0, size, MIB))


# Large objects.


def large_put_row(name: str, work: Work) -> Row:
    return _large_row(name, _put_large, work)


def large_get_row(name: str, work: Work) -> Row:
    return _large_row(name, _get_large, work)


def _large_row(name: str, setup: _SetUp, work: Work) -> Row:
    return Row(
        name=name,
        unit="bytes",
        baseline=HASH_LIMIT,
        burst_rest_s=work.large_rest_s,
        note=f"turns of {work.large_count}; the limit hashes the same bytes twice, in one thread",
        contestants=[
            *(
                Contestant(label, partial(setup, open_objects, work))
                for label, open_objects in STORES.items()
            ),
            Contestant(HASH_LIMIT, partial(hash_run, work)),
        ],
    )


@contextmanager
def _put_large(open_objects: OpenObjects, work: Work) -> Iterator[Run]:
    with _opened(open_objects, work) as store:
        data = random.randbytes(work.large_bytes)
        source = random.Random()

        def run() -> float:
            for _ in range(work.large_count):
                store.put(random_key(source), data)
            return work.large_count * len(data)

        yield Burst(run, store)


@contextmanager
def _get_large(open_objects: OpenObjects, work: Work) -> Iterator[Run]:
    with _opened(open_objects, work) as store:
        names = [f"large-{number}" for number in range(work.large_count * 2)]
        _fill(store, names, work.large_bytes)
        chance = random.Random(5)

        def run() -> float:
            wanted = chance.choices(names, k=work.large_count)
            return sum(len(store.get(name)) for name in wanted)

        yield Burst(run, store)


def hash_run(work: Work) -> Run:
    data = random.randbytes(work.large_bytes)

    def run() -> float:
        for _ in range(work.large_count):
            hashlib.md5(data, usedforsecurity=False).digest()
            blake3(data)
        return work.large_count * len(data)

    return run


# Listings.


def list_row(name: str, work: Work) -> Row:
    few, many = work.listed_few, work.listed_many
    return Row(
        name=name,
        unit="pages",
        baseline="lakebed, of few",
        note=(
            f"of {few:,} objects and of {many:,}, at a random place: flat if their ratio is about "
            "1. The metadata of the many are filled directly, with rows as a put makes them; "
            "plain files are read, sorted and asked for their sizes"
        ),
        contestants=[
            Contestant("lakebed, of few", partial(_list, _lake_with, few, work)),
            Contestant("lakebed, of many", partial(_list, _lake_with, many, work)),
            Contestant("SQLite, of few", partial(_list, _sqlite_with, few, work)),
            Contestant("SQLite, of many", partial(_list, _sqlite_with, many, work)),
            Contestant("plain files, of few", partial(_list, _files_with, few, work)),
        ],
    )


def _lake_with(names: Iterator[str], folder: Path) -> ObjectStore:
    fill_metadata(folder, names)
    return LakebedObjects(folder)


def _sqlite_with(names: Iterator[str], folder: Path) -> ObjectStore:
    store = SqliteBlobs(folder)
    store.fill(names)
    return store


def _files_with(names: Iterator[str], folder: Path) -> ObjectStore:
    store = PlainFiles(folder)
    for name in names:
        store.put(name, b"")
    return store


@contextmanager
def _list(
    open_with: Callable[[Iterator[str], Path], ObjectStore], count: int, work: Work
) -> Iterator[Run]:
    names = [f"{number:012d}" for number in range(count)]
    chance = random.Random(6)
    in_any_order = iter(chance.sample(names, k=count))
    with _opened(partial(open_with, in_any_order), work) as store:
        page_keys = min(PAGE_KEYS, count)

        def run() -> float:
            for _ in range(work.page_count):
                at = chance.randrange(count - page_keys + 1)
                page = store.list_page(names[at - 1] if at else "")
                assert len(page) == page_keys
            return work.page_count

        yield run


# For all.


@contextmanager
def _opened(open_objects: OpenObjects, work: Work) -> Iterator[ObjectStore]:
    with scratch_folder(work.scratch) as folder, closing(open_objects(folder)) as store:
        yield store
        store.wait_until_idle()


def _fill(store: ObjectStore, names: list[str], size: int) -> None:
    """In many threads: how it was filled is not what a reader is asked."""
    data = random.randbytes(size)
    left = iter(names)
    crew = Crew(16)

    def put_some() -> None:
        for name in left:
            store.put(name, data)

    crew.work(1, put_some)
    crew.dismiss()
    store.wait_until_idle()


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(
        FULL,
        scratch=scratch,
        puts_by_threads=((1, 3), (4, 8)),
        put_rest_s=0,
        get_objects=20,
        get_count=10,
        range_object_bytes=64 * KIB,
        range_count=3,
        large_bytes=2 * MIB,
        large_count=2,
        large_rest_s=0,
        listed_few=30,
        listed_many=1_500,
        page_count=2,
    )
