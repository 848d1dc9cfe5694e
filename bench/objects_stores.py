"""What the rows of the object store compare: a bucket, blobs in SQLite, and plain files.

All of them make a put durable before it returns, on the same disk:

- lakebed: `Bucket.put`, in process, with default settings, in a bucket with versions;
- SQLite: a row in a transaction of its own, WAL, `synchronous=FULL`; one connection with a lock
  writes (one for each thread wait for one another longer), each thread reads on its own. What
  is larger than 4 MiB is cut into rows of that size, for SQLite has no blob of 1 GiB;
- plain files: one for each object, written, synced, and then its folder synced.

The bucket computes MD5, CRC64NVME and BLAKE3 of what it is given and verifies what it reads, the
two others do neither.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Protocol

from lakebed.base.clock import HybridClock
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import MIB
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import Algorithm, Checksum, Chunk, Condition
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.ranges import ByteRange
from lakebed.seglake.versions import NewVersion, VersionRules

BUCKET = "bench"
BLOB_BYTES = 4 * MIB
PAGE_KEYS = 1000
WAIT_S = 120.0
_FILL_KEYS = 10_000  # in one transaction


class ObjectStore(Protocol):
    """Thread-safe."""

    def put(self, key: str, data: bytes) -> None:
        """Durable when it returns."""

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, length: int) -> bytes: ...

    def list_page(self, after: str) -> Sequence[tuple[str, int]]:
        """Key and size of up to 1,000 objects behind that key."""

    def wait_until_idle(self) -> None:
        """Until what was put off to a quiet moment is done."""

    def close(self) -> None: ...


OpenObjects = Callable[[Path], ObjectStore]


class LakebedObjects:
    def __init__(self, folder: Path, *, config: SeglakeConfig | None = None) -> None:
        self._store = Store.open(folder, object_config=config)
        self._bucket = self._store.bucket(BUCKET)
        self._metadata = Database(
            LakePaths(folder).database,
            disk=real_disk(),
            runner=ThreadRunner(),
            readers_max=1,
            read_only=True,
        )

    def put(self, key: str, data: bytes) -> None:
        self._bucket.put(key, data)

    def get(self, key: str) -> bytes:
        return self._bucket.read(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        wanted = ByteRange(first=start, last=start + length - 1)
        return self._bucket.get(key, byte_range=wanted).read()

    def list_page(self, after: str) -> Sequence[tuple[str, int]]:
        page = self._bucket.list_page(after=after, max_keys=PAGE_KEYS)
        return [(item.key, item.size) for item in page.items]

    def wait_until_idle(self) -> None:
        """Its manifests are written as files then."""
        deadline = time.monotonic() + WAIT_S
        while self._has_pending():
            assert time.monotonic() < deadline, "manifests are not written"
            time.sleep(0.02)

    def close(self) -> None:
        self._metadata.close()
        self._store.close()

    def _has_pending(self) -> bool:
        with self._metadata.snapshot() as reader:
            return bool(reader.pending_manifests(1))


class SqliteBlobs:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._path = folder / "blobs.db"
        self._lock = threading.Lock()
        self._own = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._db = self._connect()
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS blobs (id INTEGER PRIMARY KEY, key TEXT, part INTEGER,"
            " size INTEGER, data BLOB, UNIQUE (key, part, size))"
        )

    def put(self, key: str, data: bytes) -> None:
        pieces = enumerate(range(0, max(1, len(data)), BLOB_BYTES))
        rows = [(key, part, len(data), data[at : at + BLOB_BYTES]) for part, at in pieces]
        sql = "INSERT OR REPLACE INTO blobs (key, part, size, data) VALUES (?, ?, ?, ?)"
        with self._lock:
            if len(rows) == 1:
                self._db.execute(sql, rows[0])
                return
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(sql, rows)
            self._db.execute("COMMIT")

    def get(self, key: str) -> bytes:
        sql = "SELECT data FROM blobs WHERE key = ? ORDER BY part"
        return b"".join(row[0] for row in self._reader.execute(sql, (key,)))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        found = b""
        while len(found) < length:
            part, at = divmod(start + len(found), BLOB_BYTES)
            sql = "SELECT id FROM blobs WHERE key = ? AND part = ?"
            [row_id] = self._reader.execute(sql, (key, part)).fetchone()
            with self._reader.blobopen("blobs", "data", row_id, readonly=True) as blob:
                blob.seek(at)
                found += blob.read(min(length - len(found), BLOB_BYTES - at))
        return found

    def list_page(self, after: str) -> Sequence[tuple[str, int]]:
        sql = "SELECT key, size FROM blobs WHERE key > ? AND part = 0 ORDER BY key LIMIT ?"
        return self._reader.execute(sql, (after, PAGE_KEYS)).fetchall()

    def fill(self, keys: Iterator[str]) -> None:
        """With empty objects, in large transactions."""
        sql = "INSERT INTO blobs (key, part, size, data) VALUES (?, 0, 1024, x'')"
        while some := [(key,) for key in islice(keys, _FILL_KEYS)]:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(sql, some)
            self._db.execute("COMMIT")

    def wait_until_idle(self) -> None:
        """It has nothing to do."""

    def close(self) -> None:
        for connection in (*self._readers, self._db):
            connection.close()

    @property
    def _reader(self) -> sqlite3.Connection:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._connect()
            self._readers.append(self._own.connection)
        connection: sqlite3.Connection = self._own.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)


class PlainFiles:
    """Keys are the files' names."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def put(self, key: str, data: bytes) -> None:
        descriptor = os.open(self._folder / key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.fsync(self._descriptor)

    def get(self, key: str) -> bytes:
        return (self._folder / key).read_bytes()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        descriptor = os.open(self._folder / key, os.O_RDONLY)
        try:
            return os.pread(descriptor, length, start)
        finally:
            os.close(descriptor)

    def list_page(self, after: str) -> Sequence[tuple[str, int]]:
        names = sorted(name for name in os.listdir(self._folder) if name > after)[:PAGE_KEYS]
        return [(name, (self._folder / name).stat().st_size) for name in names]

    def wait_until_idle(self) -> None:
        """They have nothing to do."""

    def close(self) -> None:
        os.close(self._descriptor)


def fill_metadata(folder: Path, keys: Iterator[str]) -> None:
    """Objects of 1 KiB in a new store: rows as a put makes them, through `Database.write`.

    There is no body behind them, and they say that their manifests are written as files.
    """
    LakebedObjects(folder).close()
    runner = ThreadRunner()
    path = LakePaths(folder).database
    with Database(path, disk=real_disk(), runner=runner, readers_max=1) as database:
        with database.snapshot() as reader:
            clock = HybridClock(runner.clock, last=reader.last_hlc())
            rules = VersionRules(clock=clock, site_id=reader.site_id(), random=Random(1))
        while some := list(islice(keys, _FILL_KEYS)):
            assert database.write([partial(_add, rules, some)]) == [None]


def _add(rules: VersionRules, keys: Sequence[str], writer: Writer) -> None:
    new = NewVersion(
        size=1024,
        etag="0" * 32,
        chunks=(Chunk(bytes(32), "0" * 24, 44, 1024),),
        checksums=(Checksum(Algorithm.CRC64NVME, "AAAAAAAAAAA="),),
    )
    infos = [rules.put(writer, BUCKET, key, new, Condition()) for key in keys]
    writer.mark_manifest_files(written=[info.version_id for info in infos])
