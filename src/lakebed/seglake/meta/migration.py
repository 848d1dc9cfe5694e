"""Migrates the metadata database: applies all missing migrations in one transaction."""

from __future__ import annotations

import apsw

from lakebed.base.errors import Corrupt, UnknownVersion
from lakebed.seglake.meta import statements
from lakebed.seglake.meta.connection import NoMetadata, is_blank
from lakebed.seglake.meta.schema import APPLICATION_ID, MIGRATIONS


def migrate(connection: apsw.Connection, path: str, *, now_ms: int) -> None:
    """Applies the missing migrations. Creates the tables if there are none.

    Raises `UnknownVersion` if the database has a newer schema than this program supports, and
    `Corrupt` if the database belongs to another program.
    """
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
    """Raises an error unless the database has tables and the current schema version.

    For readers, which cannot migrate the database. Raises `NoMetadata` if there are no tables,
    `UnknownVersion` if the schema is older or newer, and `Corrupt` if the database belongs to
    another program.
    """
    version = version_of(connection, path)
    if not version:
        raise NoMetadata(path)
    if version != len(MIGRATIONS):
        raise UnknownVersion(
            "the metadata has an older schema version: open the store for writing to migrate it",
            path=path,
            expected=len(MIGRATIONS),
            found=version,
        )


def version_of(connection: apsw.Connection, path: str) -> int:
    """Returns the schema version of the database, or 0 if it has no tables yet.

    Raises `Corrupt` if the database belongs to another program, and `UnknownVersion` if its schema
    is newer than this program supports.
    """
    if is_blank(connection) or not connection.execute(statements.TABLE_COUNT).get:
        return 0
    if connection.execute(statements.APPLICATION_ID).get != APPLICATION_ID:
        raise Corrupt("the database belongs to another program", path=path)
    version: int = connection.execute(statements.SCHEMA_VERSION).get
    if version > len(MIGRATIONS):
        raise UnknownVersion(
            "the metadata has a newer schema version: use a newer version of this program",
            path=path,
            expected=len(MIGRATIONS),
            found=version,
        )
    return version
