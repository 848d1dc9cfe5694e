"""Appending to an AOF2 log, and opening one; `bench.aof_stores` says what it stands beside.

A busy log fills its segments with zeros in its pauses, from the second one on, so it is measured
there: the first segment is written before the clock starts, and the second one filled.

Batches are measured twice. *In bursts*: as much as fits a segment, with a rest before, in which the
next one is filled. *Sustained*: without a pause. Then a log does not fill its segments, but here it
would, while the others have their turns, and slow them down: so that is switched off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.aof_stores import (
    PEERS,
    SCRATCH,
    LogStore,
    OpenStore,
    RawFile,
    Renewed,
    Store,
    append_all,
    scratch_folder,
)
from bench.commit import Crew
from bench.row import Contestant, Row, Run
from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.format import record_bytes
from lakebed.aof.manager import AofManager
from lakebed.base.units import GIB, KIB, MIB, format_bytes

SIZES = {"100 B": 100, "1 KiB": KIB}
SEALED_COUNTS = (1, 64)
FLUSH_NEVER_MS = 60_000


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    batch_count: int = 8
    batch_records: int = 1_000
    single_count: int = 20  # of each caller
    store_bytes_max: int = 512 * MIB  # then it is made anew
    segment_bytes: int = AofConfig().segment_bytes
    burst_bytes: int = 48 * MIB  # of encoded records; fits a segment
    burst_rest_s: float = 1.0
    grid_segment_bytes: Sequence[int] = (MIB, 16 * MIB, 64 * MIB)
    grid_store_bytes_max: int = 192 * MIB
    grid_batches: int = 16
    recovery_segment_bytes: int = MIB
    read_bytes: int = 32 * MIB  # of payloads


FULL = Work()


def rows(work: Work = FULL) -> Iterator[Row]:
    for size_name, size in SIZES.items():
        payloads = random_payloads(size, work)
        yield batch_row(f"aof/durable batch of 1,000, sustained/{size_name}", payloads, work)
        yield burst_row(f"aof/durable batch of 1,000, in bursts/{size_name}", payloads, work)
    for callers in (1, 16):
        yield single_row(f"aof/durable single 100 B/{callers} callers", callers, work)
    for cadence, flush in CADENCES.items():
        yield grid_row(f"aof/throughput 1 KiB/flush {cadence}", flush, work)
    yield recovery_row("aof/open/1 and 64 sealed segments", work)


# Durable appends.


def batch_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    ours = partial(warm_log, payloads=payloads, work=work, zero_fill=False)
    stores: dict[str, OpenStore] = {"lakebed": ours, **PEERS}
    contestants = [
        Contestant(label, partial(_append_batches, open_store, payloads, work))
        for label, open_store in stores.items()
    ]
    for kind in ("zero-filled", "fresh"):
        setup = partial(_write_raw, kind == "zero-filled", payloads, work.batch_count, work)
        contestants.append(Contestant(f"limit: {kind} file", setup))
    note = "the log does not zero-fill its segments: under this load it would not."
    return Row(name=name, unit="records", baseline="limit: zero-filled file",
               contestants=contestants, note=note)  # fmt: skip


def burst_row(name: str, payloads: Sequence[bytes], work: Work) -> Row:
    """What a log that is not at its limit all the time does in a busy moment."""
    batch_count = work.burst_bytes // encoded_bytes(payloads)
    ours = partial(warm_log, payloads=payloads, work=work)
    stores: dict[str, OpenStore] = {"lakebed": ours, **PEERS}
    contestants = [
        Contestant(label, partial(_append_burst, open_store, payloads, batch_count, work))
        for label, open_store in stores.items()
    ]
    for kind in ("zero-filled", "fresh"):
        setup = partial(_write_raw_burst, kind == "zero-filled", payloads, batch_count, work)
        contestants.append(Contestant(f"limit: {kind} file", setup))
    note = (
        f"bursts of {batch_count} batches; before each all rest {work.burst_rest_s} s. "
        "In this rest, untimed, the log zero-fills its next segment in the background."
    )
    return Row(name=name, unit="records", baseline="limit: zero-filled file",
               contestants=contestants, note=note, burst_rest_s=work.burst_rest_s)  # fmt: skip


def single_row(name: str, callers: int, work: Work) -> Row:
    payloads = random_payloads(100, work)
    payload = payloads[0]
    ours = partial(warm_log, payloads=payloads, work=work)
    stores: dict[str, OpenStore] = {"lakebed": ours, **PEERS}
    contestants = [
        Contestant(label, partial(_append_singles, open_store, payload, callers, work))
        for label, open_store in stores.items()
    ]
    limit = "limit: one sync for all callers, zero-filled file"
    setup = partial(_write_raw, True, [payload] * callers, work.single_count, work)
    contestants.append(Contestant(limit, setup))
    return Row(name=name, unit="records", baseline=limit, contestants=contestants)


def warm_log(
    folder: Path, *, payloads: Sequence[bytes], work: Work, zero_fill: bool = True
) -> LogStore:
    """A log that goes on in its second segment, which was prepared in the background."""
    config = AofConfig(segment_bytes=work.segment_bytes, zero_fill_spares=zero_fill)
    store = LogStore(folder, config)
    while not any(info.segment_id for info in store.log.segments()):
        store.append(payloads)
        if zero_fill:
            store.wait_for_spare()
    return store


@contextmanager
def _append_batches(open_store: OpenStore, payloads: Sequence[bytes], work: Work) -> Iterator[Run]:
    run_bytes = work.batch_count * sum(map(len, payloads))

    def run() -> float:
        store = renewed.make_room(run_bytes)
        for _ in range(work.batch_count):
            store.append(payloads)
        return work.batch_count * len(payloads)

    with _renewed(open_store, work.store_bytes_max, work) as renewed:
        yield run


class Burst:
    """Appends so many batches, and rests."""

    def __init__(
        self,
        append: Callable[[], None],
        rest: Callable[[], None],
        *,
        batch_count: int,
        records: int,
    ) -> None:
        self._append = append
        self._rest = rest
        self._batch_count = batch_count
        self._records = records

    def __call__(self) -> float:
        for _ in range(self._batch_count):
            self._append()
        return self._batch_count * self._records

    def rest(self) -> None:
        self._rest()


@contextmanager
def _append_burst(
    open_store: OpenStore, payloads: Sequence[bytes], batch_count: int, work: Work
) -> Iterator[Run]:
    with (
        scratch_folder(work.scratch) as folder,
        closing(open_store(folder)) as store,
    ):

        def rest() -> None:
            if isinstance(store, LogStore):
                store.wait_for_spare()

        append = partial(store.append, payloads)
        yield Burst(append, rest, batch_count=batch_count, records=len(payloads))


@contextmanager
def _write_raw_burst(
    zero_filled: bool, payloads: Sequence[bytes], batch_count: int, work: Work
) -> Iterator[Run]:
    with (
        scratch_folder(work.scratch) as folder,
        closing(RawFile(folder, payloads, zero_filled=zero_filled)) as file,
    ):
        rest = partial(file.make_room, batch_count * file.record_bytes)
        yield Burst(file.append, rest, batch_count=batch_count, records=len(payloads))


@contextmanager
def _append_singles(
    open_store: OpenStore, payload: bytes, callers: int, work: Work
) -> Iterator[Run]:
    with _renewed(open_store, work.store_bytes_max, work) as renewed:
        crew = Crew(callers)
        append = partial(renewed.store.append_one, payload)

        def run() -> float:
            crew.work(work.single_count, append)
            return callers * work.single_count

        try:
            yield run
        finally:
            crew.dismiss()


@contextmanager
def _write_raw(
    zero_filled: bool, payloads: Sequence[bytes], count: int, work: Work
) -> Iterator[Run]:
    with (
        scratch_folder(work.scratch) as folder,
        closing(RawFile(folder, payloads, zero_filled=zero_filled)) as file,
    ):

        def run() -> float:
            for _ in range(count):
                file.append()
            return count * len(payloads)

        yield run


@contextmanager
def _renewed(open_store: OpenStore, bytes_max: int, work: Work) -> Iterator[Renewed]:
    with (
        scratch_folder(work.scratch) as folder,
        closing(Renewed(folder, open_store, bytes_max=bytes_max)) as renewed,
    ):
        yield renewed


# Segment sizes and flush cadences: when a run ends, all it appended is durable.


@dataclass(frozen=True)
class Cadence:
    flush_ms: int
    batches: int | None  # between two flushes; None leaves it to the timer


CADENCES = {
    "every 1,000 records": Cadence(flush_ms=FLUSH_NEVER_MS, batches=1),
    "every 8 MiB": Cadence(flush_ms=FLUSH_NEVER_MS, batches=8),
    "every 5 ms": Cadence(flush_ms=5, batches=None),
}


def grid_row(name: str, cadence: Cadence, work: Work) -> Row:
    labels = {f"segments of {format_bytes(size)}": size for size in work.grid_segment_bytes}
    contestants = [
        Contestant(label, partial(_append_at_cadence, cadence, size, work))
        for label, size in labels.items()
    ]
    return Row(name=name, unit="records", baseline=list(labels)[-1], contestants=contestants)


@contextmanager
def _append_at_cadence(cadence: Cadence, segment_bytes: int, work: Work) -> Iterator[Run]:
    payloads = random_payloads(KIB, work)
    run_bytes = work.grid_batches * sum(map(len, payloads))
    config = AofConfig(
        segment_bytes=segment_bytes,
        flush=FlushConfig(flush_bytes=GIB, flush_ms=cadence.flush_ms, max_unflushed_bytes=GIB),
    )

    def run() -> float:
        store = renewed.make_room(run_bytes)
        assert isinstance(store, LogStore)
        for number in range(1, work.grid_batches + 1):
            append_all(store.log, payloads)
            if cadence.batches is not None and number % cadence.batches == 0:
                store.log.flush()
        store.log.flush()
        return work.grid_batches * len(payloads)

    def open_store(folder: Path) -> Store:
        return LogStore(folder, config)

    with _renewed(open_store, work.grid_store_bytes_max, work) as renewed:
        yield run


# Opening: the log's time must not depend on how much is sealed.


def recovery_row(name: str, work: Work) -> Row:
    """The logs have the same unsealed tail; the peers hold what the larger log does, and were
    closed in good order."""
    labels = {count: f"lakebed, {count} sealed" for count in SEALED_COUNTS}
    contestants = [
        Contestant(label, partial(_open_log, count, work)) for count, label in labels.items()
    ]
    contestants += [
        Contestant(label, partial(_open_peer, open_store, work))
        for label, open_store in PEERS.items()
    ]
    return Row(name=name, unit="opens", baseline=labels[SEALED_COUNTS[0]], contestants=contestants)


@contextmanager
def _open_log(sealed_count: int, work: Work) -> Iterator[Run]:
    config = AofConfig(segment_bytes=work.recovery_segment_bytes)
    payloads = random_payloads(KIB, work)
    with (
        scratch_folder(work.scratch) as folder,
        AofManager(folder, config=config) as manager,
    ):
        log = manager.open("bench")
        for _ in range(sealed_count):
            append_all(log, payloads[: _segment_records(work)])
            log.seal_current_segment()
        append_all(log, payloads[: _segment_records(work) // 2])
        manager.close_log("bench")

        def run() -> float:
            opened = manager.open("bench")
            assert len(opened.segments()) == sealed_count + 1
            manager.close_log("bench")
            return 1

        yield run


@contextmanager
def _open_peer(open_store: OpenStore, work: Work) -> Iterator[Run]:
    payloads = random_payloads(KIB, work)[: _segment_records(work)]
    with scratch_folder(work.scratch) as folder:
        with closing(open_store(folder)) as store:
            for _ in range(SEALED_COUNTS[-1]):
                store.append(payloads)

        def run() -> float:
            open_store(folder).close()
            return 1

        yield run


def _segment_records(work: Work) -> int:
    """Of 1 KiB: what fits one segment with its header and footer, or a batch if that is less."""
    return min(work.batch_records, work.recovery_segment_bytes // KIB * 9 // 10)


def encoded_bytes(payloads: Sequence[bytes]) -> int:
    return sum(record_bytes(len(payload)) for payload in payloads)


def random_payloads(size: int, work: Work) -> list[bytes]:
    source = random.Random(size)
    return [source.randbytes(size) for _ in range(work.batch_records)]
