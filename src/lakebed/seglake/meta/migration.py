"""Brings the tables up to date: the numbered migrations that are missing, all or none."""

from __future__ import annotations

import apsw

from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.connection import NoMetadata, is_blank
from lakebed.seglake.meta.schema import APPLICATION_ID, MIGRATIONS


def migrate(connection: apsw.Connection, path: str, *, now_ms: int) -> None:
    """A new database gets all of them. `UnknownVersion` if it is newer than this program."""
    if version_of(connection, path) == len(MIGRATIONS):
        return
    connection.execute(statements.BEGIN_WRITING)
    try:
        for version in range(version_of(connection, path) + 1, len(MIGRATIONS) + 1):
            connection.execute(statements.CREATE_MIGRATIONS)
            connection.execute(f"{statements.APPLICATION_ID} = {APPLICATION_ID}")
            connection.execute(MIGRATIONS[version - 1])
            connection.execute(statements.ADD_MIGRATION, (version, now_ms))
        connection.execute(statements.COMMIT)
    except BaseException:
        if connection.in_transaction:
            connection.execute(statements.ROLLBACK)
        raise


def check_version(connection: apsw.Connection, path: str) -> None:
    """For whoever only reads: it must be there, and be this program's."""
    version = version_of(connection, path)
    if not version:
        raise NoMetadata(path)
    if version != len(MIGRATIONS):
        raise UnknownVersion(
            "the metadata must be opened for writing once, to be brought up to date",
            path=path,
            expected=len(MIGRATIONS),
            found=version,
        )


def version_of(connection: apsw.Connection, path: str) -> int:
    """0 of a new database; `Corrupt` if it is not ours, `UnknownVersion` if it is newer."""
    if is_blank(connection) or not connection.execute(statements.TABLE_COUNT).get:
        return 0
    if connection.execute(statements.APPLICATION_ID).get != APPLICATION_ID:
        raise Corrupt("a database of something else", path=path)
    version: int = connection.execute(statements.SCHEMA_VERSION).get
    if version > len(MIGRATIONS):
        raise UnknownVersion(
            "the metadata are of a newer version",
            path=path,
            expected=len(MIGRATIONS),
            found=version,
        )
    return version
