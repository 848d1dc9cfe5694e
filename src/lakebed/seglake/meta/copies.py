"""Copies of the metadata database, for long reads and for backups.

A copy is made page by page from one snapshot, while the writer is running. The copy is identical to
the source, so it may have an older schema version, which is migrated when it is opened for writing.
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
    """Copies the committed metadata into a new file on the real disk.

    Raises `NotFound` if there is no metadata, and `UnknownVersion` if it is newer than this
    program.
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
    """Raises `UnknownVersion` if the metadata is newer than this program; changes nothing."""
    with translating(path), contextlib.closing(connect_read_only(path)) as connection:
        version_of(connection, path)


def segments_of(path: str) -> list[SegmentRow]:
    """Returns the segments that a copy of the metadata names."""
    with translating(path), contextlib.closing(connect_read_only(path)) as connection:
        return Reader(connection).segments()


def written_manifests(
    path: str, after: str = "", *, connector: Connector = connect_read_only
) -> list[tuple[str, bytes]]:
    """Returns up to 1,000 manifests after the version id `after` whose files are written."""
    with translating(path), contextlib.closing(connector(path)) as connection:
        return list(connection.execute(statements.WRITTEN_MANIFESTS, (after, _AT_ONCE)))


@contextlib.contextmanager
def translating(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error, path=path) from error
