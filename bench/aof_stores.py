"""What the AOF2 rows compare: a log, three embedded stores, and bare files.

All of them make a call's records durable before it returns, on the same disk:

- the log: `append_records` and `flush`;
- LMDB: one transaction with `putmulti` in key order, synced at its commit; integer keys;
- RocksDB: one `WriteBatch` with `sync=True`; keys of 8 bytes, in order;
- SQLite: one transaction with `executemany`, WAL, `synchronous=FULL`;
- a bare file: `write_and_sync` of records that were encoded before. *Zero-filled* is what the log
  prepares in the background; *fresh* has its length and no blocks yet.

Checksums: the log verifies every record it reads, RocksDB every block, LMDB and SQLite nothing.
"""

from __future__ import annotations

import importlib
import itertools
import shutil
import sqlite3
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench.row import Unavailable
from lakebed.aof.config import AofConfig
from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.reader import LogReader
from lakebed.base.units import GIB, MIB
from lakebed.kernels import aof_encode
from lakebed.kernels.disk import real_disk

SCRATCH = Path(__file__).parent / "results"  # on the disk that is measured, not in memory
RAW_FILE_BYTES = 64 * MIB
WAIT_S = 30.0
FILL_S = 5.0

_NATIVE_KEY = struct.Struct("=Q").pack
_SORTED_KEY = struct.Struct(">Q").pack


class Store(Protocol):
    """Where records are appended, and read back. `append` and `append_one` are thread-safe."""

    def append(self, payloads: Sequence[bytes]) -> None:
        """Durable when it returns."""

    def append_one(self, payload: bytes) -> None:
        """Durable when it returns."""

    def payloads(self) -> Iterable[bytes | memoryview]:
        """All of them, in order."""

    def record_keys(self) -> Sequence[Any]:
        """What `get` takes, in order."""

    def get(self, key: Any) -> bytes: ...

    def close(self) -> None: ...


OpenStore = Callable[[Path], Store]


class LogStore:
    """Ours, with default settings unless told otherwise."""

    def __init__(self, folder: Path, config: AofConfig | None = None) -> None:
        self._config = config or AofConfig()
        self._manager = AofManager(folder, config=self._config)
        self.log: Aof = self._manager.open("bench")
        self.reader = LogReader(self.log)

    def append(self, payloads: Sequence[bytes]) -> None:
        append_all(self.log, payloads)
        self.log.flush()

    def append_one(self, payload: bytes) -> None:
        try:
            record_id = self.log.append_record(payload)
        except WouldBlock:
            record_id = self.log.append_record_with_timeout(payload, WAIT_S)
        self.log.flush(record_id)

    def payloads(self) -> Iterator[bytes]:
        return (record.payload for record in self.reader.read())

    def record_keys(self) -> Sequence[Any]:
        return [key for batch in self.reader.read_batches() for key in batch.record_ids()]

    def get(self, key: Any) -> bytes:
        return self.reader.get(key).payload

    def wait_for_spare(self) -> None:
        """Until the next segment is zero-filled, if the log has grown enough to prepare it.

        On a machine so slow that the log does not count as busy nothing is filled: not for long.
        """
        segment_bytes = self._config.segment_bytes
        is_due = self.log.durable_end().segment_offset >= segment_bytes // 4
        deadline = time.monotonic() + FILL_S
        while is_due and self._filled_bytes() < segment_bytes and time.monotonic() < deadline:
            time.sleep(0.005)

    def close(self) -> None:
        self.reader.close()
        self._manager.close()

    def _filled_bytes(self) -> float:
        return self.log.counters.snapshot().gauges["aof_spare_filled_bytes"]


def append_all(log: Aof, payloads: Sequence[bytes]) -> None:
    """Append, waiting for a flush or a sealed segment where that is needed."""
    while payloads:
        try:
            log.append_records(payloads)
            return
        except WouldBlock as blocked:
            payloads = payloads[len(blocked.record_ids) :]
            if blocked.kind is BackpressureKind.FLUSH:
                log.flush()
            else:
                log.wait_for_writable_segment(WAIT_S)


class LmdbStore:
    def __init__(self, folder: Path) -> None:
        lmdb = _import("lmdb")
        # The map is address space; the file is as long as what was written.
        self._env = lmdb.open(str(folder), map_size=4 * GIB, max_dbs=1)
        self._records = self._env.open_db(b"records", integerkey=True)
        with self._env.begin(db=self._records) as transaction:
            self._next = transaction.stat()["entries"]

    def append(self, payloads: Sequence[bytes]) -> None:
        keys = map(_NATIVE_KEY, range(self._next, self._next + len(payloads)))
        with self._env.begin(write=True, db=self._records) as transaction:
            transaction.cursor().putmulti(zip(keys, payloads, strict=True), append=True)
        self._next += len(payloads)

    def append_one(self, payload: bytes) -> None:
        with self._env.begin(write=True, db=self._records) as transaction:
            transaction.put(_NATIVE_KEY(self._next), payload, append=True)
            self._next += 1  # writers exclude each other

    def payloads(self) -> Iterator[memoryview]:
        with self._env.begin(db=self._records, buffers=True) as transaction:
            yield from transaction.cursor().iternext(keys=False, values=True)

    def record_keys(self) -> Sequence[Any]:
        return [_NATIVE_KEY(number) for number in range(self._next)]

    def get(self, key: Any) -> bytes:
        with self._env.begin(db=self._records) as transaction:
            return _bytes(transaction.get(key))

    def close(self) -> None:
        self._env.close()


class RocksStore:
    def __init__(self, folder: Path) -> None:
        self._module = _import("rocksdict")
        self._db = self._module.Rdict(str(folder), self._module.Options(raw_mode=True))
        self._synced = self._module.WriteOptions()
        self._synced.sync = True
        last = next(iter(self._db.keys(backwards=True)), None)
        first_free = 0 if last is None else int.from_bytes(last, "big") + 1
        self._numbers = itertools.count(first_free)

    def append(self, payloads: Sequence[bytes]) -> None:
        batch = self._module.WriteBatch(raw_mode=True)
        put = batch.put
        for number, payload in zip(self._numbers, payloads, strict=False):
            put(_SORTED_KEY(number), payload)
        self._db.write(batch, self._synced)

    def append_one(self, payload: bytes) -> None:
        self._db.put(_SORTED_KEY(next(self._numbers)), payload, write_opt=self._synced)

    def payloads(self) -> Iterator[bytes]:
        return iter(self._db.values())

    def record_keys(self) -> Sequence[Any]:
        return list(self._db.keys())

    def get(self, key: Any) -> bytes:
        return _bytes(self._db[key])

    def close(self) -> None:
        self._db.close()


class SqliteStore:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._lock = threading.Lock()  # one connection serves all threads
        self._db = sqlite3.connect(
            folder / "records.db", isolation_level=None, check_same_thread=False
        )
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, payload BLOB)"
        )

    def append(self, payloads: Sequence[bytes]) -> None:
        rows = ((payload,) for payload in payloads)
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO records (payload) VALUES (?)", rows)
            self._db.execute("COMMIT")

    def append_one(self, payload: bytes) -> None:
        with self._lock:
            self._db.execute("INSERT INTO records (payload) VALUES (?)", (payload,))

    def payloads(self) -> Iterator[bytes]:
        return (row[0] for row in self._db.execute("SELECT payload FROM records ORDER BY id"))

    def record_keys(self) -> Sequence[Any]:
        return [row[0] for row in self._db.execute("SELECT id FROM records ORDER BY id")]

    def get(self, key: Any) -> bytes:
        found = self._db.execute("SELECT payload FROM records WHERE id = ?", (key,)).fetchone()
        return _bytes(found[0])

    def close(self) -> None:
        self._db.close()


PEERS: dict[str, OpenStore] = {"SQLite": SqliteStore, "LMDB": LmdbStore, "RocksDB": RocksStore}


class RawFile:
    """A file of the length of a segment that is written from its start to its end, and again."""

    def __init__(self, folder: Path, payloads: Sequence[bytes], *, zero_filled: bool) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / "raw"
        self._zero_filled = zero_filled
        self._data = aof_encode(payloads, timestamps=1, ext_ids=0, capacity=sys.maxsize).data
        self._disk = real_disk()
        self._create()

    def append(self) -> None:
        if self._end + len(self._data) > RAW_FILE_BYTES:
            self._begin_again()
        self._file.write_and_sync(self._end, [self._data])
        self._end += len(self._data)

    def make_room(self, needed_bytes: int) -> None:
        """So that it need not begin again in the midst of that."""
        if self._end + needed_bytes > RAW_FILE_BYTES:
            self._begin_again()

    @property
    def record_bytes(self) -> int:
        """Of one append."""
        return len(self._data)

    def close(self) -> None:
        self._file.close()

    def _create(self) -> None:
        self._file = self._disk.create(self._path, size=RAW_FILE_BYTES)
        if self._zero_filled:
            self._file.zero_fill(0, RAW_FILE_BYTES)
        self._file.sync()
        self._end = 0

    def _begin_again(self) -> None:
        """Blocks that were written once are as good as zero-filled ones; fresh ones are made."""
        self._end = 0
        if not self._zero_filled:
            self._file.close()
            self._path.unlink()
            self._create()


class Renewed:
    """A store that is made anew when it has grown to `bytes_max`, to keep its disk use bounded."""

    def __init__(self, folder: Path, open_store: OpenStore, *, bytes_max: int) -> None:
        self._folder = folder
        self._open = open_store
        self._bytes_max = bytes_max
        self._written_bytes = 0
        self.store = open_store(folder)

    def make_room(self, needed_bytes: int) -> Store:
        self._written_bytes += needed_bytes
        if self._written_bytes > self._bytes_max:
            self.store.close()
            shutil.rmtree(self._folder)
            self.store = self._open(self._folder)
            self._written_bytes = needed_bytes
        return self.store

    def close(self) -> None:
        self.store.close()


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A path below `parent` for one contestant; whatever it makes there is removed."""
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix="aof-") as folder:
        yield Path(folder) / "store"


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Unavailable(f"{name} is not installed; `make bench` does") from None


def _bytes(value: Any) -> bytes:
    assert isinstance(value, bytes)
    return value
