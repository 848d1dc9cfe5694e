"""Copies consumer groups into a backup: the snapshot, the delta and the settings of each group.

A delta has the events since the last snapshot. It is read before the snapshot. If the writer merges
the delta into a new snapshot in between, the copied delta is older than the copied snapshot; when
the group is opened, only those of the delta's events are applied that the snapshot lacks. In the
opposite order, events would be missing.

If there is a delta but no snapshot, the group is either new and is copied, or, if the delta is not
its first, is being removed and is left out. A snapshot without its delta is left out if the group
is being removed; otherwise it is copied, and opening the group reports the loss. Files whose group
is unknown are copied as they are, and reported.
"""

from __future__ import annotations

from lakebed.base.errors import DataError, DiskError, NotFound
from lakebed.base.files import Disk, read_file
from lakebed.store.backup.copy import Copier, Unreadable, copy_as_it_is
from lakebed.store.group_verification import still_exists, unnamed_files
from lakebed.stroma.delta import decode_header
from lakebed.stroma.paths import GroupName, GroupPaths, list_groups
from lakebed.stroma.recovery import FILE_BYTES_MAX, FIRST_GENERATION


def copy_groups(copier: Copier, disk: Disk, root: str) -> dict[str, list[str]]:
    """Copies all groups; returns the names of the copied files by topic.

    Files whose group is unknown are copied, but are not in the result.
    """
    names_by_topic: dict[str, list[str]] = {}
    for name in list_groups(disk, root):
        names = _copy_group(copier, disk, root, name)
        names_by_topic.setdefault(name.topic, []).extend(names)
    for path in unnamed_files(disk, root):
        copier.problems.append(f"{path}: the group of this file is unknown")
        copy_as_it_is(copier, path)
    return names_by_topic


def _copy_group(copier: Copier, disk: Disk, root: str, name: GroupName) -> list[str]:
    paths = GroupPaths(root, name)
    files = (paths.delta, paths.snapshot, paths.names, paths.settings)  # the order matters
    pieces = {path: _read(copier, disk, path) for path in files}
    delta = pieces[paths.delta]
    is_first = delta is not None and _generation(delta) == FIRST_GENERATION
    if pieces[paths.snapshot] is None and not disk.exists(paths.snapshot) and not is_first:
        return []
    if not disk.exists(paths.delta) and not still_exists(disk, root, name):
        return []
    kept = {path: data for path, data in pieces.items() if data is not None}
    for path, data in kept.items():
        copier.add(path, data)
    return [copier.name(path) for path in kept]


def _read(copier: Copier, disk: Disk, path: str) -> bytes | None:
    """Reads a file; returns None if it does not exist or cannot be read.

    If it cannot be read, that is added to the backup's problems.
    """
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
    """Returns the generation of a delta.

    If its header is damaged, returns the first generation, so that the delta is copied as it is.
    """
    try:
        return decode_header(memoryview(delta)).generation
    except DataError:
        return FIRST_GENERATION
