"""The manifest log: recording with commits, replaying, and opening after a snapshot.

A segment's life is ten records: opened, sealed, compressed, uploaded, evicted, deleted. Of all
segments the last few thousand are alive. Beside it stands SQLite with one row a record and the
same durability, whose replay folds the rows it reads in the same way.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random

from bench.aof_stores import SCRATCH, scratch_folder
from bench.row import Contestant, Row, Run
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.format import (
    RECORD_HEADER,
    CompressionDone,
    CompressionStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
)
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.journal_opener import open_journal
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadStarted,
    decode_record,
    encode_record,
)
from lakebed.aof.manifest.replay import replay
from lakebed.base.counters import Counters
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.kernels import crc64nvme
from lakebed.kernels.disk import real_disk

_log = logging.getLogger(__name__)
ALIVE = 2_000  # segments
FEW_ALIVE = 200
COMMIT_RECORDS = 100
HISTORIES = (1, 64)  # chunks before the snapshot


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much a contestant does in one run, and where."""

    scratch: Path = SCRATCH
    commits: int = 5
    replay_records: int = 1_000_000
    chunk_records: int = 3_000  # about what a chunk holds


FULL = Work()


def rows(work: Work = FULL) -> Iterator[Row]:
    yield append_row(f"manifest/record, commit each {COMMIT_RECORDS}", work)
    yield replay_row(f"manifest/replay of {work.replay_records:,} records", work)
    yield opening_row("manifest/open after a snapshot", work)


def history(alive: int = ALIVE) -> Iterator[tuple[Payload, int, int]]:
    """What happens to one segment after the other: payload, segment, logical offset."""
    size = 64 * MIB
    for number in count():
        base, key = number * size, _key(number)
        yield SegmentOpened(base, 1), number, base
        yield SealSegment(size, number, 0, number, 0), number, base + size
        yield CompressionStarted(number & 0xFFFF), number, base
        yield CompressionDone(size // 3, 0), number, base
        yield UploadStarted(key), number, base
        yield UploadDone(key, '"0123456789abcdef"'), number, base
        yield LocalEvicted(size), number, base + size
        if number >= alive:
            old = number - alive
            yield Tier2DeleteQueued(_key(old)), old, old * size
            yield LocalEvicted(size // 3), old, (old + 1) * size
            yield Tier2Deleted(_key(old)), old, old * size


def _key(number: int) -> str:
    return f"aof2/00000000000000aa/segment-{number:020}-{number}.zst"


# Recording.


def append_row(name: str, work: Work) -> Row:
    return Row(
        name=name,
        unit="records",
        baseline="SQLite",
        contestants=[
            Contestant("lakebed", partial(_append_ours, work)),
            Contestant("SQLite", partial(_append_sqlite, work)),
            Contestant("limit: fresh file", partial(_append_raw, work)),
        ],
    )


@contextmanager
def opened(folder: Path) -> Iterator[Journal]:
    runner = ThreadRunner()
    config = ManifestConfig(snapshot_chunks=10_000)
    journal, _ = open_journal(
        real_disk(),
        str(folder / "manifest"),
        quarantine=str(folder / "quarantine"),
        config=config,
        runner=runner,
        random=Random(1),
        counters=Counters(),
        wake=lambda: None,
        on_failure=_log.error,
    )
    try:
        yield journal
    finally:
        journal.close()
        runner.close()


def _append(journal: Journal, event: tuple[Payload, int, int]) -> None:
    payload, segment_id, logical_offset = event
    journal.append(payload, segment_id=segment_id, logical_offset=logical_offset)


@contextmanager
def _append_ours(work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder, opened(folder) as journal:
        events = history()

        def run() -> float:
            for _ in range(work.commits):
                for event in islice(events, COMMIT_RECORDS):
                    _append(journal, event)
                journal.commit()
            return work.commits * COMMIT_RECORDS

        yield run


def _encoded(events: Iterator[tuple[Payload, int, int]]) -> Iterator[bytes]:
    for payload, segment_id, logical_offset in events:
        yield encode_record(ManifestRecord(payload, segment_id, logical_offset, 1))


@contextmanager
def sqlite_journal(folder: Path) -> Iterator[sqlite3.Connection]:
    folder.mkdir()
    connection = sqlite3.connect(folder / "peer.db", isolation_level=None)
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    assert mode == "wal"
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, record BLOB)")
    try:
        yield connection
    finally:
        connection.close()


def _insert(connection: sqlite3.Connection, records: Iterator[bytes]) -> None:
    connection.execute("BEGIN")
    rows = ((record,) for record in records)
    connection.executemany("INSERT INTO records (record) VALUES (?)", rows)
    connection.execute("COMMIT")


@contextmanager
def _append_sqlite(work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder, sqlite_journal(folder) as connection:
        records = _encoded(history())

        def run() -> float:
            for _ in range(work.commits):
                _insert(connection, islice(records, COMMIT_RECORDS))
            return work.commits * COMMIT_RECORDS

        yield run


@contextmanager
def _append_raw(work: Work) -> Iterator[Run]:
    """The same bytes, encoded before."""
    disk = real_disk()
    data = b"".join(islice(_encoded(history()), COMMIT_RECORDS))
    with scratch_folder(work.scratch) as path, disk.create(path) as file:
        offsets = count(0, len(data))

        def run() -> float:
            for _ in range(work.commits):
                file.write_and_sync(next(offsets), [data])
            return work.commits * COMMIT_RECORDS

        yield run


# Replaying.


def replay_row(name: str, work: Work) -> Row:
    return Row(
        name=name,
        unit="records",
        baseline="SQLite",
        note=f"from the first record, no snapshot; {ALIVE:,} segments are alive at its end",
        contestants=[
            Contestant("lakebed", partial(_replay_ours, work)),
            Contestant("SQLite", partial(_replay_sqlite, work)),
        ],
    )


def _write(journal: Journal, record_count: int) -> None:
    for number, event in enumerate(islice(history(), record_count)):
        _append(journal, event)
        if number % 10_000 == 9_999:
            journal.commit()
    journal.commit()


@contextmanager
def _replay_ours(work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        with opened(folder) as journal:
            _write(journal, work.replay_records)
        reader = ManifestReader(real_disk(), ManifestPaths(str(folder / "manifest")))
        for snapshot_id in reader.snapshot_ids():
            real_disk().unlink(reader.paths.snapshot(snapshot_id))

        def run() -> float:
            return replay(reader).record_count

        yield run


@contextmanager
def _replay_sqlite(work: Work) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder, sqlite_journal(folder) as connection:
        _insert(connection, islice(_encoded(history()), work.replay_records))

        def run() -> float:
            index = ManifestIndex()
            for (data,) in connection.execute("SELECT record FROM records ORDER BY id"):
                header = RECORD_HEADER.unpack(data)
                payload = data[RECORD_HEADER.size : RECORD_HEADER.size + header.payload_len]
                assert crc64nvme(payload) == header.payload_crc64
                index.apply(decode_record(header, payload))
            return index.record_count

        yield run


# Opening.


def opening_row(name: str, work: Work) -> Row:
    contestants = [
        Contestant(f"{chunks} chunks before it", partial(_open, work, chunks))
        for chunks in HISTORIES
    ]
    return Row(
        name=name,
        unit="openings",
        baseline=contestants[0].name,
        note=f"{FEW_ALIVE} segments are alive in both; flat if the ratio is about 1",
        contestants=contestants,
    )


@contextmanager
def _open(work: Work, chunks: int) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        with opened(folder) as journal:
            for event in islice(history(FEW_ALIVE), chunks * work.chunk_records):
                _append(journal, event)
                if journal.lag_bytes > MIB:
                    journal.commit()

        def run() -> float:
            with opened(folder):
                return 1

        yield run
