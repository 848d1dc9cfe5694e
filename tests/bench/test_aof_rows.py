"""The AOF2 rows, with very little work: each does what it counts. No test here looks at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from bench import aof, aof_reads
from bench.aof import Work, warm_log
from bench.aof_stores import (
    PEERS,
    RAW_FILE_BYTES,
    LogStore,
    OpenStore,
    RawFile,
    Renewed,
    Store,
    append_all,
)
from bench.row import Contestant, Row, Run
from lakebed.aof.config import AofConfig
from lakebed.base.units import KIB, MIB
from lakebed.kernels.format import AOF_RECORD

pytestmark = pytest.mark.thorough

STORES: dict[str, OpenStore] = {"lakebed": LogStore, **PEERS}


def tiny(scratch: Path) -> Work:
    return Work(
        scratch=scratch,
        batch_count=2,
        batch_records=50,
        single_count=2,
        segment_bytes=MIB,
        store_bytes_max=4 * MIB,
        burst_bytes=300_000,
        burst_rest_s=0,
        grid_segment_bytes=(64 * KIB, 128 * KIB),
        grid_store_bytes_max=MIB,
        grid_batches=3,
        recovery_segment_bytes=64 * KIB,
        read_bytes=100 * KIB,
    )


# What one run of each contestant must say it did, by the beginning of the row's name.
EXPECTED = {
    "aof/durable batch of 1,000, sustained": 2 * 50,
    "aof/durable batch of 1,000, in bursts/100 B": 46 * 50,
    "aof/durable batch of 1,000, in bursts/1 KiB": 5 * 50,
    "aof/durable single 100 B/1 callers": 2,
    "aof/durable single 100 B/16 callers": 16 * 2,
    "aof/throughput": 3 * 50,
    "aof/open": 1,
    "aof/read in batches/100 B": 20 * 50 * 100,
    "aof/read in batches/1 KiB": 2 * 50 * KIB,
    "aof/read one by one/100 B": 20 * 50,
    "aof/read at random/100 B": 500,
    "aof/hand over": 20,
}

CASES = [
    (row.name, contestant.name)
    for module in (aof, aof_reads)
    for row in module.rows(tiny(Path()))
    for contestant in row.contestants
]


@pytest.mark.parametrize(("row_name", "contestant_name"), CASES)
def test_a_run_does_the_work_that_it_counts(
    row_name: str, contestant_name: str, tmp_path: Path
) -> None:
    contestant = find(row_name, contestant_name, tiny(tmp_path))
    (expected,) = (amount for start, amount in EXPECTED.items() if row_name.startswith(start))
    with running(contestant) as run:
        assert [run(), run()] == [expected, expected]
    assert not list(tmp_path.iterdir()), "something was left behind"


@pytest.mark.parametrize("name", STORES)
def test_a_store_gives_back_in_order_what_it_was_given(name: str, tmp_path: Path) -> None:
    source = random.Random(7)
    payloads = [source.randbytes(100) for _ in range(150)]
    with closing(opened(name, tmp_path / "store")) as store:
        store.append(payloads[:100])
        store.append(payloads[100:149])
        store.append_one(payloads[149])
    with closing(opened(name, tmp_path / "store")) as store:
        assert [bytes(payload) for payload in store.payloads()] == payloads
        assert [store.get(key) for key in store.record_keys()] == payloads
        store.append([b"more"])
        assert [bytes(payload) for payload in store.payloads()] == [*payloads, b"more"]


def test_a_batch_that_crosses_segments_is_appended_once(tmp_path: Path) -> None:
    payloads = [number.to_bytes(4, "big") * 100 for number in range(1000)]
    with closing(LogStore(tmp_path, AofConfig(segment_bytes=64 * KIB))) as store:
        append_all(store.log, payloads)
        store.log.flush()
        assert len(store.log.segments()) > 3
        assert list(store.payloads()) == payloads


def test_a_warm_log_writes_its_second_segment(tmp_path: Path) -> None:
    with closing(warm_log(tmp_path, payloads=[bytes(100)] * 50, work=tiny(tmp_path))) as store:
        assert [info.segment_id for info in store.log.segments()] == [0, 1]


@pytest.mark.parametrize("zero_filled", [True, False])
def test_a_raw_file_begins_again_at_its_end(zero_filled: bool, tmp_path: Path) -> None:
    record = bytes(range(256)) * (RAW_FILE_BYTES // 1024)  # a quarter, and a header
    with closing(RawFile(tmp_path, [record], zero_filled=zero_filled)) as file:
        for _ in range(4):
            file.append()
    stored = (tmp_path / "raw").read_bytes()
    assert len(stored) == RAW_FILE_BYTES
    assert stored[AOF_RECORD.size :].startswith(record)
    # Three fit. The fourth went to the start: of the same file, or of a fresh one.
    assert stored.count(record) == (3 if zero_filled else 1)


def test_a_store_that_grew_to_its_limit_is_made_anew(tmp_path: Path) -> None:
    with closing(Renewed(tmp_path / "store", LogStore, bytes_max=1000)) as renewed:
        for _ in range(3):
            renewed.make_room(400).append([bytes(400)])
        assert len(list(renewed.store.payloads())) == 1


def find(row_name: str, contestant_name: str, work: Work) -> Contestant:
    rows: list[Row] = [*aof.rows(work), *aof_reads.rows(work)]
    (found,) = (
        contestant
        for row in rows
        if row.name == row_name
        for contestant in row.contestants
        if contestant.name == contestant_name
    )
    return found


@contextmanager
def running(contestant: Contestant) -> Iterator[Run]:
    with ExitStack() as stack:
        made = contestant.setup()
        if isinstance(made, AbstractContextManager):
            made = stack.enter_context(made)
        yield made


def opened(name: str, folder: Path) -> Store:
    return STORES[name](folder)
