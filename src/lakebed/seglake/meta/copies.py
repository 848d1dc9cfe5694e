"""Copies the metadata database for backups, and reads database files without an open object store.

A copy has the content of one snapshot and can be made while the writer is running. It has the
schema version of the source, which may be an old version; the copy is migrated when it is opened
for writing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import apsw

from lakebed.seglake.meta import statements
from lakebed.seglake.meta.connection import (
    Connector,
    NoMetadata,
    connect,
    connect_read_only,
    is_blank,
    prepare_reader,
    translated,
)
from lakebed.seglake.meta.migration import version_of
from lakebed.seglake.meta.new_database_check import NO_CHECK, NewCheck
from lakebed.seglake.meta.reader import Reader
from lakebed.seglake.meta.rows import SegmentRow

_AT_ONCE = 1000


def copy_metadata(
    path: str,
    target: str,
    *,
    connector: Connector = connect_read_only,
    new_check: NewCheck = NO_CHECK,
) -> None:
    """Copies the committed metadata into the new file `target` on the real disk.

    Raises `NotFound` if the database has no tables yet, `UnknownVersion` if its schema is newer
    than this program supports, `Corrupt` if it is damaged, and `DiskError` if it cannot be opened,
    for example because it does not exist. `new_check` raises an error if the metadata was lost.
    """
    new_check.check_file()

    def check(source: apsw.Connection) -> None:
        if not version_of(source, path):
            new_check.check_empty(is_blank=is_blank(source))
            raise NoMetadata(path)  # its creation was interrupted

    with translating(path), contextlib.closing(connector(path)) as source:
        prepare_reader(source, path, check=check)
        new_check.check_history(Reader(source))
        with (
            contextlib.closing(connect(target)) as copy,
            copy.backup("main", source, "main") as backup,
        ):
            backup.step()  # all pages, from one snapshot


def check_metadata_version(path: str) -> None:
    """Raises `UnknownVersion` if the metadata has a newer schema than this program supports.

    Raises `Corrupt` if the database is damaged or belongs to another program, and `DiskError` if it
    cannot be opened, for example because it does not exist. Does not change the database.
    """
    with translating(path), contextlib.closing(connect_read_only(path)) as connection:
        version_of(connection, path)


def segments_of(path: str) -> list[SegmentRow]:
    """Returns the segments that the metadata database at `path` records."""
    with translating(path), contextlib.closing(connect_read_only(path)) as connection:
        return Reader(connection).segments()


def written_manifests(
    path: str, after: str = "", *, connector: Connector = connect_read_only
) -> list[tuple[str, bytes]]:
    """Returns up to 1,000 manifests whose files are written, as (version id, manifest).

    They are in order of version id, and start after the id `after`.
    """
    with translating(path), contextlib.closing(connector(path)) as connection:
        return list(connection.execute(statements.WRITTEN_MANIFESTS, (after, _AT_ONCE)))


@contextlib.contextmanager
def translating(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error, path=path) from error
