"""Reading an AOF2 log from the page cache, and following it; `bench.aof_stores` says beside what.

Bytes and records are those of the payloads. The log's segments are sealed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from bench.aof import FULL, SIZES, Work, random_payloads
from bench.aof_stores import PEERS, LogStore, OpenStore, Store, scratch_folder
from bench.row import Contestant, Row, Run
from lakebed import kernels
from lakebed.aof.follower import Follower

GETS = 500
HAND_OVERS = 20
WAIT_S = 30.0

AnyStore = TypeVar("AnyStore", bound=Store)


def rows(work: Work = FULL) -> Iterator[Row]:
    for size_name, size in SIZES.items():
        yield batches_row(f"aof/read in batches/{size_name}", size, work)
    yield iteration_row("aof/read one by one/100 B", 100, work)
    yield random_row("aof/read at random/100 B", 100, work)
    yield follower_row("aof/hand over to a follower/100 B", work)


# Reading.


def batches_row(name: str, size: int, work: Work) -> Row:
    """The peers have no batches: they give their values one by one."""
    limit = "limit: one checksum over all"
    return Row(
        name=name,
        unit="bytes",
        baseline=limit,
        contestants=[
            Contestant(
                "lakebed", partial(_reading, sealed_log, size, work, partial(_batch_bytes, size))
            ),
            *(
                Contestant(
                    label, partial(_reading, open_store, size, work, partial(_payload_bytes, size))
                )
                for label, open_store in PEERS.items()
            ),
            Contestant(limit, partial(_checksum, size, work)),
        ],
    )


def iteration_row(name: str, size: int, work: Work) -> Row:
    stores: dict[str, OpenStore] = {"lakebed": sealed_log, **PEERS}
    contestants = [
        Contestant(label, partial(_reading, open_store, size, work, _count))
        for label, open_store in stores.items()
    ]
    return Row(name=name, unit="records", baseline="LMDB", contestants=contestants)


def random_row(name: str, size: int, work: Work) -> Row:
    stores: dict[str, OpenStore] = {"lakebed": sealed_log, **PEERS}
    contestants = [
        Contestant(label, partial(_getting, open_store, size, work))
        for label, open_store in stores.items()
    ]
    return Row(name=name, unit="records", baseline="LMDB", contestants=contestants)


def sealed_log(folder: Path) -> LogStore:
    return LogStore(folder)


@contextmanager
def _filled(open_store: Callable[[Path], AnyStore], size: int, work: Work) -> Iterator[AnyStore]:
    payloads = random_payloads(size, work)
    with scratch_folder(work.scratch) as folder, closing(open_store(folder)) as store:
        for _ in range(_batch_count(size, work)):
            store.append(payloads)
        if isinstance(store, LogStore):
            store.log.seal_current_segment()
        yield store


@contextmanager
def _reading(
    open_store: Callable[[Path], AnyStore],
    size: int,
    work: Work,
    read: Callable[[AnyStore], float],
) -> Iterator[Run]:
    with _filled(open_store, size, work) as store:
        yield partial(read, store)


def _batch_bytes(size: int, store: LogStore) -> float:
    return size * sum(map(len, store.reader.read_batches()))


def _payload_bytes(size: int, store: Store) -> float:
    return size * _count(store)


def _count(store: Store) -> float:
    count = 0
    for _ in store.payloads():
        count += 1
    return count


@contextmanager
def _getting(open_store: Callable[[Path], Store], size: int, work: Work) -> Iterator[Run]:
    with _filled(open_store, size, work) as store:
        keys = store.record_keys()
        wanted = random.Random(size).choices(keys, k=GETS)

        def run() -> float:
            for key in wanted:
                store.get(key)
            return len(wanted)

        yield run


def _checksum(size: int, work: Work) -> Run:
    data = b"".join(random_payloads(size, work) * _batch_count(size, work))

    def run() -> float:
        kernels.crc64nvme(data)
        return len(data)

    return run


def _batch_count(size: int, work: Work) -> int:
    return max(1, work.read_bytes // (size * work.batch_records))


# Following: a writer appends and flushes a record, a follower's thread takes it, the writer goes
# on. What the follower costs is the difference to the contestants without one.


def follower_row(name: str, work: Work) -> Row:
    alone, event = "append and flush alone", "append, flush and an event between threads"
    return Row(
        name=name,
        unit="hand-overs",
        baseline=event,
        contestants=[
            Contestant("lakebed follower", partial(_ping_pong, _following, work)),
            Contestant(event, partial(_ping_pong, _told, work)),
            Contestant(alone, partial(_ping_pong, _untold, work)),
        ],
    )


HandOver = Callable[[], None]
"""Returns when the other side has the record that was flushed last."""

OtherSide = AbstractContextManager[HandOver]


@contextmanager
def _ping_pong(other_side: Callable[[LogStore], OtherSide], work: Work) -> Iterator[Run]:
    payload = random_payloads(100, work)[0]
    with (
        scratch_folder(work.scratch) as folder,
        closing(LogStore(folder)) as store,
        other_side(store) as hand_over,
    ):

        def run() -> float:
            for _ in range(HAND_OVERS):
                store.append_one(payload)
                hand_over()
            return HAND_OVERS

        yield run


@contextmanager
def _following(store: LogStore) -> Iterator[HandOver]:
    taken = threading.Semaphore(0)

    def take(follower: Follower) -> None:
        for _ in follower:
            taken.release()

    with _other_thread(Follower(store.log), take):
        yield partial(_await, taken)


@contextmanager
def _told(store: LogStore) -> Iterator[HandOver]:  # noqa: ARG001 - as the others
    flushed, taken = threading.Semaphore(0), threading.Semaphore(0)
    is_over = threading.Event()

    def answer() -> None:
        while flushed.acquire() and not is_over.is_set():
            taken.release()

    def hand_over() -> None:
        flushed.release()
        _await(taken)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield hand_over
    finally:
        is_over.set()
        flushed.release()
        thread.join()


@contextmanager
def _untold(store: LogStore) -> Iterator[HandOver]:  # noqa: ARG001 - as the others
    yield lambda: None


@contextmanager
def _other_thread(follower: Follower, take: Callable[[Follower], None]) -> Iterator[None]:
    thread = threading.Thread(target=take, args=(follower,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        follower.close()
        thread.join()


def _await(taken: threading.Semaphore) -> None:
    assert taken.acquire(timeout=WAIT_S), "the follower never got it"
