"""Read-only snapshots of the metadata, even if the root has no metadata yet.

A root whose object store was never opened for writing has no database, and reading must not create
a database. In that case a snapshot is of an empty database in memory. Each new snapshot or query
checks again whether a database exists.
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
    """Read access to the metadata, of a `Database` or of a `ReadOnlyMetadata`."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Returns a context manager for reading one snapshot."""

    def query(self) -> AbstractContextManager[Reader]:
        """Returns a context manager for a single query, which is cheaper than a snapshot.

        If it is used for several queries, each sees the newest state.
        """


class ReadOnlyMetadata:
    """The metadata of a root, for reading only. Thread-safe.

    The first snapshot or query that finds a database opens it. Until then, reads see no data.
    """

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
        """Closes the database. Idempotent."""
        with self._mutex:
            self._is_closed = True
            database, self._database = self._database, None
        if database is not None:
            database.close()

    def _find(self) -> Database | None:
        with self._mutex:
            if self._is_closed:
                raise Closed(f"{self.path}: the metadata database is closed")
            if self._database is None:
                with contextlib.suppress(NoMetadata):
                    try:
                        self._database = self._open()
                    except MetadataLost:
                        # A writer may have created and used the database during the check, so that
                        # the check saw files newer than the database. The second attempt is final.
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
    """Yields a reader of an empty in-memory database with the current schema."""
    connection = apsw.Connection(":memory:")
    try:
        migrate(connection, connection.filename, now_ms=0)
        yield Reader(connection)
    finally:
        connection.close(True)
