"""Snapshots of the metadata, for whoever only reads; also where there are no metadata yet.

A root in which nobody has stored an object has no database, and whoever only reads makes none: it
is shown the empty one that a writer would make. The next snapshot looks again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import apsw

from lakebed.base.errors import Closed
from lakebed.base.files import Disk
from lakebed.base.runner import Runner
from lakebed.seglake.errors import MetadataLost
from lakebed.seglake.meta.connection import Connector, NoMetadata, connect_read_only
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.migration import migrate
from lakebed.seglake.meta.new_database_check import NO_CHECK, NewCheck
from lakebed.seglake.meta.reader import Reader


class Snapshots(Protocol):
    """What a `Database` is to its readers."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """A snapshot, in a `with`."""

    def query(self) -> AbstractContextManager[Reader]:
        """As `snapshot`, for a single question: each has a snapshot of its own."""


class ReadOnlyMetadata:
    """Thread-safe. Opened by the first who asks, if it is there."""

    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        runner: Runner,
        readers_max: int,
        connector: Connector = connect_read_only,
        new_check: NewCheck = NO_CHECK,
    ) -> None:
        self.path = path
        self._disk = disk
        self._runner = runner
        self._readers_max = readers_max
        self._connector = connector
        self._new_check = new_check
        self._mutex = runner.mutex()
        self._database: Database | None = None  # guarded by _mutex
        self._is_closed = False

    def snapshot(self) -> AbstractContextManager[Reader]:
        database = self._find()
        return _empty_metadata() if database is None else database.snapshot()

    def query(self) -> AbstractContextManager[Reader]:
        database = self._find()
        return _empty_metadata() if database is None else database.query()

    def close(self) -> None:
        """Idempotent."""
        with self._mutex:
            self._is_closed = True
            database, self._database = self._database, None
        if database is not None:
            database.close()

    def _find(self) -> Database | None:
        with self._mutex:
            if self._is_closed:
                raise Closed(f"{self.path}: the metadata were closed")
            if self._database is None:
                with contextlib.suppress(NoMetadata):
                    try:
                        self._database = self._open()
                    except MetadataLost:
                        # Perhaps they were made, and used, while it looked. What it found then is
                        # no news to them any more.
                        self._database = self._open()
            return self._database

    def _open(self) -> Database:
        return Database(
            self.path,
            disk=self._disk,
            runner=self._runner,
            readers_max=self._readers_max,
            connector=self._connector,
            read_only=True,
            new_check=self._new_check,
        )


@contextlib.contextmanager
def _empty_metadata() -> Iterator[Reader]:
    """An empty database of the current version, in memory."""
    connection = apsw.Connection(":memory:")
    try:
        migrate(connection, connection.filename, now_ms=0)
        yield Reader(connection)
    finally:
        connection.close(True)
