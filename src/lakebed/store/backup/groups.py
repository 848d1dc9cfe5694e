"""What is copied of consumer groups: of each its snapshot, its delta and its settings.

The delta is read before the snapshot. A fold in between leaves a delta that is older than the
snapshot, which has all of it: that is ignored when the group is opened. The other way round events
would be missing. A delta whose snapshot is gone belongs to a group that is being removed: it is
left out. Files of which nobody can tell whose they are, are copied as they are, and told.
"""

from __future__ import annotations

from lakebed.base.errors import DataError, DiskError, NotFound
from lakebed.base.files import Disk, read_file
from lakebed.store.backup.copy import Copier, Unreadable, copy_as_it_is
from lakebed.store.group_verification import unnamed_files
from lakebed.stroma.delta import decode_header
from lakebed.stroma.paths import GroupPaths, list_groups
from lakebed.stroma.recovery import FILE_BYTES_MAX, FIRST_GENERATION


def copy_groups(copier: Copier, disk: Disk, root: str) -> dict[str, list[str]]:
    """All groups there are; the names of their files, by topic."""
    found: dict[str, list[str]] = {}
    for name in list_groups(disk, root):
        names = _copy_group(copier, disk, GroupPaths(root, name))
        found.setdefault(name.topic, []).extend(names)
    for path in unnamed_files(disk, root):
        copier.problems.append(f"{path}: nobody can tell which group it is of")
        copy_as_it_is(copier, path)
    return found


def _copy_group(copier: Copier, disk: Disk, paths: GroupPaths) -> list[str]:
    files = (paths.delta, paths.snapshot, paths.names, paths.settings)  # in this order
    pieces = {path: _read(copier, disk, path) for path in files}
    delta = pieces[paths.delta]
    is_first = delta is not None and _generation(delta) == FIRST_GENERATION
    if pieces[paths.snapshot] is None and not disk.exists(paths.snapshot) and not is_first:
        return []
    kept = {path: data for path, data in pieces.items() if data is not None}
    for path, data in kept.items():
        copier.add(path, data)
    return [copier.name(path) for path in kept]


def _read(copier: Copier, disk: Disk, path: str) -> bytes | None:
    """None if it is not there, or cannot be read, which is told."""
    try:
        return read_file(disk, path, size_max=FILE_BYTES_MAX)
    except NotFound:
        return None
    except DiskError as error:
        copier.problems.append(str(Unreadable(path, error)))
    except DataError as error:
        copier.problems.append(str(error))
    return None


def _generation(delta: bytes) -> int:
    """One that is damaged is copied as it is: whoever opens it is told."""
    try:
        return decode_header(memoryview(delta)).generation
    except DataError:
        return FIRST_GENERATION
