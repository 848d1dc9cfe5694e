"""What is copied of the object store: its metadata, then the segments that these name.

The metadata are copied first, from one snapshot. What they refer to was durable before they said
so, and stays where it is: a segment that is still written only grows, and is copied as far as the
metadata know it. The files of manifests are not copied: all of them are in the metadata, too, and
are written again from there (`restoring`).

The copy of the metadata needs as much space as these do, in a scratch folder outside of the root.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from lakebed.base.errors import NotFound
from lakebed.base.files import Disk
from lakebed.kernels.disk import real_disk
from lakebed.seglake.paths import LakePaths
from lakebed.seglake.segment_id import segment_path
from lakebed.store.backup.copying import Copier, SourceChanged

# Imported when there are objects: a store that has only logs needs no SQLite.
if TYPE_CHECKING:
    from lakebed.seglake.meta.connection import Connector


def copy_objects(
    copier: Copier, disk: Disk, root: str, *, connector: Connector | None = None
) -> None:
    """Nothing if nobody has stored an object yet."""
    paths = LakePaths(root)
    if not disk.exists(paths.database):
        return
    from lakebed.seglake.meta.connection import NoMetadata, connect_read_only
    from lakebed.seglake.meta.copies import copy_metadata, segments_of

    with tempfile.TemporaryDirectory(prefix="lakebed-backup-") as scratch:
        copy = os.path.join(scratch, "meta.db")
        try:
            copy_metadata(paths.database, copy, connector=connector or connect_read_only)
        except NoMetadata:
            return
        rows = segments_of(copy)
        copier.copy(copy, disk=real_disk(), name=copier.name(paths.database))
    for row in rows:
        path = segment_path(paths.segments, row.segment_id)
        try:
            copier.copy(path, end=row.size, is_sealed=row.state == "SEALED")
        except NotFound as error:
            copier.problems.append(f"objects: {error}")
        except SourceChanged:
            copier.problems.append(f"{path}: is shorter than the {row.size} bytes it had")
            copier.copy(path)
    if disk.exists(paths.secret_key):
        copier.copy(paths.secret_key)
