"""Copies the object store into a backup: its metadata database, then the segments that it names.

The metadata is copied first, from one database snapshot. Everything that it refers to is already
durable and stays in place: a segment that is still being written only grows, and is copied up to
the length in the metadata. Manifest files are not copied: the metadata has their content, and
`restore` writes them again.

If the metadata is damaged, that is reported, and everything is copied as it is: the database file,
all segments, and the manifest files.

The copy of the metadata is first made in a temporary folder outside the root, which needs as much
space as the database.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

from lakebed.base.errors import DataError, DiskError, NotFound, UnknownVersion
from lakebed.base.files import Disk
from lakebed.base.units import KIB, MIB
from lakebed.kernels.disk import real_disk
from lakebed.seglake.errors import MetadataLost
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_id import segment_path
from lakebed.store.backup.copy import (
    Copier,
    SourceChanged,
    Unreadable,
    copy_as_it_is,
    copy_tree,
)

# Imported only if there are objects: a store with only logs needs no SQLite.
if TYPE_CHECKING:
    from lakebed.seglake.meta.connection import Connector
    from lakebed.seglake.meta.rows import SegmentRow

_PIECES_BYTES = (MIB, 4 * KIB, 64, 1)  # the smaller sizes are for the end of a file


def copy_objects(
    copier: Copier, disk: Disk, root: str, *, connector: Connector | None = None
) -> None:
    """Copies the object store, if there is one, and the key that encrypts its secrets."""
    paths = LakePaths(root)
    rows: list[SegmentRow] | None = []
    if any(map(disk.exists, paths.traces)):
        rows = _copy_metadata(copier, disk, paths, connector)
    if rows is None:
        copy_tree(copier, disk, os.path.dirname(paths.segments))
    for row in rows or ():
        _copy_segment(copier, paths, row)
    if disk.exists(paths.secret_key):
        copy_as_it_is(copier, paths.secret_key)


def _copy_metadata(
    copier: Copier, disk: Disk, paths: LakePaths, connector: Connector | None
) -> list[SegmentRow] | None:
    """Copies the metadata; returns the segments that it names.

    If the metadata is lost or damaged, copies its files as they are, if they exist, and returns
    None.
    """
    from lakebed.seglake.lost_metadata import LostMetadataCheck
    from lakebed.seglake.meta.connection import NoMetadata, connect_read_only
    from lakebed.seglake.meta.copies import copy_metadata, segments_of

    connector = connector or connect_read_only
    rows: list[SegmentRow] | None = None
    with tempfile.TemporaryDirectory(prefix="lakebed-backup-") as scratch:
        copy = os.path.join(scratch, "meta.db")
        try:
            copy_metadata(
                paths.database,
                copy,
                connector=connector,
                new_check=LostMetadataCheck(disk, paths),
            )
            rows = segments_of(copy)
        except NoMetadata:
            return []
        except MetadataLost as error:
            copier.problems.append(str(error))
            copy_as_it_is(copier, f"{paths.database}-wal")
            return None
        except UnknownVersion:
            raise
        except (DataError, DiskError) as error:
            copier.problems.append(str(error).replace(copy, paths.database))
            copy = os.path.join(scratch, "damaged")
            _copy_damaged(copier, paths.database, copy, connector)
            copy_as_it_is(copier, f"{paths.database}-wal")  # SQLite never locks this file
        if real_disk().exists(copy):
            copier.copy(copy, disk=real_disk(), name=copier.name(paths.database))
    return rows


def _copy_damaged(copier: Copier, path: str, target: str, connector: Connector) -> None:
    """Copies the bytes of a damaged database to the file `target`, through SQLite.

    This process must not open the database file itself: closing it would release SQLite's locks.
    """
    from lakebed.seglake.meta.copies import translating

    try:
        with (
            translating(path),
            contextlib.closing(connector(path)) as source,
            real_disk().create(target) as file,
        ):
            position = 0
            for length in _PIECES_BYTES:
                is_whole, data = source.read("main", 0, position, length)
                while is_whole:
                    file.pwrite(position, data)
                    position += length
                    is_whole, data = source.read("main", 0, position, length)
    except (DataError, DiskError, NotFound) as error:
        copier.problems.append(f"the metadata was not copied: {error}")


def _copy_segment(copier: Copier, paths: LakePaths, row: SegmentRow) -> None:
    path = segment_path(paths.segments, row.segment_id)
    try:
        copier.copy(path, end=row.size, is_sealed=row.state == "SEALED")
    except (NotFound, Unreadable) as error:
        copier.problems.append(f"objects: {error}")
    except SourceChanged:
        copier.problems.append(f"{path}: is shorter than the {row.size} bytes it should have")
        copy_as_it_is(copier, path)
