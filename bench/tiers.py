"""The tiers: what they cost an append, and what reading from them costs. Tier 2 is a folder.

The records are JSON of about a kibibyte, which compresses to a quarter.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench.aof import Burst
from bench.aof_stores import SCRATCH, LogStore, scratch_folder
from bench.row import Contestant, Row, Run
from lakebed.aof.config import AofConfig
from lakebed.aof.reader import LogReader
from lakebed.aof.record_id import RecordId
from lakebed.aof.tiers.config import SEGMENTS_IN_TIER0_MIN, TierConfig
from lakebed.base.units import MIB

KINDS = {"tiering off": False, "lakebed, tiering on": True}
WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    segment_bytes: int = 16 * MIB
    batch_records: int = 250
    offered_bytes_per_s: int = 24 * MIB
    paced_batches: int = 24
    burst_batches: int = 192
    burst_tier0_bytes_max: int = 192 * MIB  # filled more than once in a row of bursts
    burst_rest_s: float = 1.0
    read_records: int = 50_000
    reads: int = 4


FULL = Work()


def rows(work: Work = FULL) -> Iterator[Row]:
    yield paced_row("tiers/append at an offered rate/1 KiB", work)
    yield burst_row("tiers/append a burst that Tier 0 holds/1 KiB", work)
    yield scan_row("tiers/read all in batches/1 KiB", work)
    yield single_row("tiers/open and read one record/1 KiB", work)


def json_records(count: int) -> list[bytes]:
    chance = random.Random(7)
    return [_json_record(chance, number) for number in range(count)]


def _json_record(chance: random.Random, number: int) -> bytes:
    words = ["pending", "shipped", "invoice", "customer", "warehouse", "returned", "priority"]
    document = {
        "id": number,
        "state": chance.choice(words),
        "amount": round(chance.random() * 1000, 2),
        "tags": chance.choices(words, k=8),
        "note": " ".join(chance.choices(words, k=75)),
        "trace": f"{chance.getrandbits(128):032x}",
    }
    return json.dumps(document).encode()


@contextmanager
def _opened(work: Work, *, is_tiered: bool, tier0_bytes_max: int = 512 * MIB) -> Iterator[LogStore]:
    tiers = TierConfig(tiering_enabled=is_tiered, tier0_bytes_max=tier0_bytes_max)
    with scratch_folder(work.scratch) as folder:
        store = LogStore(folder, AofConfig(segment_bytes=work.segment_bytes, tiers=tiers))
        try:
            yield store
        finally:
            store.close()


# Appending.


def paced_row(name: str, work: Work) -> Row:
    rate = work.offered_bytes_per_s // MIB
    return Row(
        name=name,
        unit="records",
        baseline="tiering off",
        note=f"{rate} MiB a second are offered; compression and upload run at the same time",
        contestants=[
            Contestant(label, partial(_append_paced, work, is_tiered))
            for label, is_tiered in KINDS.items()
        ],
    )


@contextmanager
def _append_paced(work: Work, is_tiered: bool) -> Iterator[Run]:
    payloads = json_records(work.batch_records)
    batch_s = sum(map(len, payloads)) / work.offered_bytes_per_s
    # As small as it may be: the tiers have to follow all the time.
    tier0_bytes_max = SEGMENTS_IN_TIER0_MIN * work.segment_bytes
    with _opened(work, is_tiered=is_tiered, tier0_bytes_max=tier0_bytes_max) as store:

        def run() -> float:
            due = time.monotonic()
            for _ in range(work.paced_batches):
                store.append(payloads)
                due += batch_s
                time.sleep(max(0.0, due - time.monotonic()))
            return work.paced_batches * len(payloads)

        yield run


def burst_row(name: str, work: Work) -> Row:
    return Row(
        name=name,
        unit="records",
        baseline="tiering off",
        note=f"{work.burst_rest_s} s of rest before each; the tiers catch up in it, untimed",
        burst_rest_s=work.burst_rest_s,
        contestants=[
            Contestant(label, partial(_append_burst, work, is_tiered))
            for label, is_tiered in KINDS.items()
        ],
    )


@contextmanager
def _append_burst(work: Work, is_tiered: bool) -> Iterator[Run]:
    payloads = json_records(work.batch_records)
    tier0_bytes_max = work.burst_tier0_bytes_max
    with _opened(work, is_tiered=is_tiered, tier0_bytes_max=tier0_bytes_max) as store:
        yield Burst(
            partial(store.append, payloads),
            partial(_wait_for_tiers, store),
            batch_count=work.burst_batches,
            records=len(payloads),
        )


def _wait_for_tiers(store: LogStore) -> None:
    """Until every sealed segment is in Tier 2, if the log has tiers."""
    deadline = time.monotonic() + WAIT_S
    while store.log.tiering is not None:
        places = store.log.tiers.residency()
        if all(2 in place.tiers for place in places if place.is_sealed):
            return
        assert time.monotonic() < deadline, "the tiers did not catch up"
        time.sleep(0.01)


# Reading.


def scan_row(name: str, work: Work) -> Row:
    plain = "plain zstd"
    return Row(
        name=name,
        unit="bytes",
        baseline=plain,
        note="bytes of payloads; plain zstd inflates the same records from one stream",
        contestants=[
            Contestant("lakebed, Tier 0", partial(_scan, work, 0)),
            Contestant("lakebed, Tier 1", partial(_scan, work, 1)),
            Contestant("lakebed, Tier 2", partial(_scan, work, 2)),
            Contestant(plain, partial(_inflate, work)),
        ],
    )


@contextmanager
def _stored(work: Work, tier: int) -> Iterator[LogStore]:
    """A log whose sealed segments are in that tier alone, or in Tier 0."""
    payloads = json_records(work.read_records)
    with _opened(work, is_tiered=False) as store:
        for start in range(0, len(payloads), work.batch_records):
            store.append(payloads[start : start + work.batch_records])
        store.log.seal_current_segment()
        if tier:
            store.log.tiers.upload()
            store.log.tiers.evict(warm=tier == 2)
        yield store


@contextmanager
def _scan(work: Work, tier: int) -> Iterator[Run]:
    with _stored(work, tier) as store:

        def run() -> float:
            return sum(sum(batch.lengths) for batch in store.reader.read_batches())

        yield run


@contextmanager
def _inflate(work: Work) -> Iterator[Run]:
    import pyzstd

    packed = pyzstd.compress(b"".join(json_records(work.read_records)), 3)

    def run() -> float:
        decompressor = pyzstd.EndlessZstdDecompressor()
        size = len(decompressor.decompress(packed, 2 * MIB))
        while not decompressor.needs_input:
            size += len(decompressor.decompress(b"", 2 * MIB))
        return size

    yield run


def single_row(name: str, work: Work) -> Row:
    return Row(
        name=name,
        unit="reads",
        baseline="lakebed, Tier 0",
        note="a new reader for each, so nothing is cached but by the system",
        contestants=[
            Contestant(f"lakebed, Tier {tier}", partial(_read_one, work, tier)) for tier in range(3)
        ],
    )


@contextmanager
def _read_one(work: Work, tier: int) -> Iterator[Run]:
    chance = random.Random(11)
    with _stored(work, tier) as store:
        ids: Sequence[RecordId] = store.record_keys()

        def run() -> float:
            for _ in range(work.reads):
                with LogReader(store.log) as reader:
                    reader.get(chance.choice(ids))
            return work.reads

        yield run


def tiny(scratch: Path) -> Work:
    """For tests: little of everything."""
    return replace(
        FULL,
        scratch=scratch,
        segment_bytes=MIB,
        batch_records=20,
        paced_batches=2,
        burst_batches=3,
        burst_rest_s=0,
        read_records=400,
        reads=2,
    )
