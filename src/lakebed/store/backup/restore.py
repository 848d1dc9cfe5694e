"""Restores a store from a backup, into a root that is empty or does not exist.

Every part is compared with its hash before it is written. `restoring.json` is written first and
`store.json` last, when everything else is durable. So a root with an interrupted restore cannot be
opened as a store. Restoring the same snapshot into it again completes the restore.

A failed sync is not retried, because the files that it covered may look whole although they are
only in memory. The file `restoring.json.unsynced` records the failure, and the next restore into
the folder starts over with new files.

A damaged part only affects the files that need it. All other files are restored. Without `salvage`,
`DamagedBackup` is raised then, with the damaged files, and the root cannot be opened as a store.
With `salvage`, the root becomes a store without these files, and a new `store.json` is written if
that is damaged.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING, NamedTuple

from lakebed.aof.manager import LOCK_NAME
from lakebed.base.clock import NS_PER_MS, SystemClock
from lakebed.base.errors import (
    AlreadyExists,
    BadConfig,
    BadName,
    Corrupt,
    DataError,
    DiskError,
    LakebedError,
    NoSpace,
    NotFound,
    SyncFailed,
    UnknownVersion,
)
from lakebed.base.files import (
    Disk,
    make_folders,
    read_file,
    remove_temporaries,
    replace_atomically,
)
from lakebed.base.progress import Progress, no_progress
from lakebed.base.units import KIB, format_bytes
from lakebed.keratin.identity import load_identity
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.topic_folder import topic_names
from lakebed.kernels.checksum import blake3
from lakebed.seglake.manifest_files import TO_BE_WRITTEN, ManifestFiles
from lakebed.seglake.paths import LakePaths
from lakebed.store import version
from lakebed.store.backup.catalogue import BackedFile, Snapshot, check_snapshot
from lakebed.store.backup.vault import Vault

if TYPE_CHECKING:
    from lakebed.seglake.meta.connection import Connector

_ALLOWED = frozenset((LOCK_NAME, "lost+found", version.RESTORING_NAME))
_UNSYNCED_NAME = f"{version.RESTORING_NAME}.unsynced"  # if it exists, no file is trusted
_MARKER_BYTES_MAX = 4 * KIB


class DamagedBackup(DataError):
    """Some files are damaged in the backup and were not restored; all other files were."""

    def __init__(self, address: str, damaged: list[str], *, root: str) -> None:
        more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        count = "1 file is" if len(damaged) == 1 else f"{len(damaged)} files are"
        super().__init__(
            f"{count} damaged in the backup ({'; '.join(damaged[:3])}{more}); "
            f"all others are in {root}, which cannot be opened yet: run the restore again with "
            "--salvage to make it a store without them",
            path=address,
        )
        self.damaged = damaged


class RestoreReport(NamedTuple):
    """The result of a restore: a complete store, except for the `damaged` files."""

    snapshot: Snapshot
    file_count: int  # restored files, not counting damaged files
    byte_count: int
    damaged: tuple[str, ...]  # each with what is wrong


def restore(
    vault: Vault,
    snapshot: Snapshot,
    root: str,
    *,
    disk: Disk,
    salvage: bool = False,
    progress: Progress = no_progress,
    connector: Connector | None = None,
) -> RestoreReport:
    """Restores a snapshot into a root, or completes an unfinished restore of the same snapshot.

    Raises `AlreadyExists` if the root has other files or an unfinished restore of another snapshot,
    `NoSpace` if the disk is too small (a new restore then fails before any file is restored), and
    `DamagedBackup` if files are damaged in the backup and `salvage` is not set. Calls `progress`
    with the number of bytes restored so far, and the number of all bytes. `connector` opens the
    metadata database on `disk`.
    """
    check_snapshot(snapshot, path=vault.address)
    _check_root(disk, root, snapshot)
    make_folders(disk, root)
    lock = disk.lock(os.path.join(root, LOCK_NAME))
    try:
        _check_root(disk, root, snapshot)
        remove_temporaries(disk, root)
        _remove_untrusted(disk, root)
        _check_space(disk, root, snapshot)
        _mark(disk, root, snapshot)
        return _Restore(vault, snapshot, root, disk, progress, connector).run(salvage=salvage)
    except SyncFailed:
        _distrust(disk, root)
        raise
    finally:
        lock.release()


class _Restore:
    def __init__(
        self,
        vault: Vault,
        snapshot: Snapshot,
        root: str,
        disk: Disk,
        progress: Progress,
        connector: Connector | None,
    ) -> None:
        self._vault = vault
        self._snapshot = snapshot
        self._root = root
        self._disk = disk
        self._progress = progress
        self._connector = connector
        self._done_bytes = 0
        self._folders: set[str] = set()
        self._damaged: list[str] = []

    def run(self, *, salvage: bool) -> RestoreReport:
        last = None
        for file in self._snapshot.files:
            if file.path == version.FILE_NAME:
                last = file
            else:
                self._restore(file)
        self._write_manifests()
        store_version = self._store_version(last)
        if self._damaged and not salvage:
            raise DamagedBackup(self._vault.address, self._damaged, root=self._root)
        self._disk.sync_tree(self._root)
        self._finish(store_version)
        return RestoreReport(
            self._snapshot,
            len(self._snapshot.files) - len(self._damaged),
            self._done_bytes,
            tuple(self._damaged),
        )

    def _restore(self, file: BackedFile) -> None:
        path = os.path.join(self._root, file.path)
        self._make_folder(os.path.dirname(path))
        try:
            if self._disk.exists(path):
                if self._is_whole(path, file):
                    self._advance(file.stored_bytes)
                    return
                self._disk.unlink(path)
            self._write(path, file)
        except Corrupt as error:
            self._damaged.append(f"{file.path}: {error}")
            with contextlib.suppress(NotFound):
                self._disk.unlink(path)

    def _write(self, path: str, file: BackedFile) -> None:
        with self._disk.create(path, size=file.size) as created:
            position = 0
            sizes = file.part_sizes(self._snapshot.part_bytes)
            for digest, size in zip(file.parts, sizes, strict=True):
                created.pwrite(position, self._vault.part(digest, size=size))
                position += size
                self._advance(size)

    def _is_whole(self, path: str, file: BackedFile) -> bool:
        """Whether an earlier attempt has completely restored this file.

        Raises `AlreadyExists` if a folder has the file's name.
        """
        if self._disk.is_folder(path):
            raise AlreadyExists(f"{path}: is a folder, but the backup has a file of that name")
        with self._disk.open(path) as restored:
            if restored.size() != file.size:
                return False
            position = 0
            sizes = file.part_sizes(self._snapshot.part_bytes)
            for digest, size in zip(file.parts, sizes, strict=True):
                if blake3(restored.pread(position, size)).hex() != digest:
                    return False
                position += size
        return True

    def _write_manifests(self) -> None:
        """Writes the manifest files of objects from the metadata, because a backup has none."""
        paths = LakePaths(self._root)
        if not self._disk.exists(paths.database):
            return
        self._make_folder(paths.manifests)
        files = ManifestFiles(paths.manifests, disk=self._disk)
        after = ""
        while manifests := self._manifests(paths.database, after):
            files.carry_out([(version_id, TO_BE_WRITTEN, data) for version_id, data in manifests])
            after = manifests[-1][0]

    def _manifests(self, database: str, after: str) -> list[tuple[str, bytes]]:
        """Returns the next manifests after the version id `after`, each with its version id.

        The list is empty if there are no more, or if the metadata cannot be read.
        """
        from lakebed.seglake.meta.connection import connect_read_only
        from lakebed.seglake.meta.copies import written_manifests

        try:
            return written_manifests(
                database, after, connector=self._connector or connect_read_only
            )
        except (UnknownVersion, SyncFailed):
            raise
        except (DataError, DiskError) as error:
            if not self._snapshot.problems:  # otherwise the backup has reported the damage
                self._damaged.append(f"objects/manifests: {error}")
            return []

    def _store_version(self, last: BackedFile | None) -> bytes:
        """Returns the content to write to `store.json`.

        `last` is the file in the backup, or None if the backup has none. If it is missing or
        damaged, the content is new.
        """
        if last is None:  # only an `AofManager` ever wrote the root
            return self._new_version()
        sizes = last.part_sizes(self._snapshot.part_bytes)
        try:
            data = b"".join(
                self._vault.part(digest, size=size)
                for digest, size in zip(last.parts, sizes, strict=True)
            )
            store_version = version.decode(data, path=os.path.join(self._root, version.FILE_NAME))
        except Corrupt as error:
            self._damaged.append(f"{last.path}: {error}")
            return self._new_version()
        self._advance(last.stored_bytes)  # the last file, which `_finish` writes
        return _restored_now(store_version)

    def _new_version(self) -> bytes:
        """Returns a new `store.json`, with the store's creation time from the vault if known."""
        created_ms = 0
        with contextlib.suppress(NotFound, DataError):
            created_ms = self._vault.marker().store_created_ms
        created_ms = created_ms or SystemClock().wall_ns() // NS_PER_MS
        return _restored_now(version.StoreVersion(version.VERSION, created_ms))

    def _finish(self, store_version: bytes) -> None:
        self._make_partitions()
        replace_atomically(self._disk, os.path.join(self._root, version.FILE_NAME), store_version)
        # It is a store now, even if a power cut brings the marker back.
        self._disk.unlink(os.path.join(self._root, version.RESTORING_NAME))
        with contextlib.suppress(SyncFailed):
            self._disk.sync_folder(self._root)

    def _make_partitions(self) -> None:
        """Creates the folders of empty partitions, because a backup has no empty folders."""
        for name in topic_names(self._disk, self._root):
            paths = TopicPaths(self._root, name)
            with contextlib.suppress(DataError, BadConfig):
                for number in range(load_identity(self._disk, paths).partition_count):
                    paths.partition(number).ensure(self._disk)

    def _make_folder(self, folder: str) -> None:
        if folder not in self._folders:
            if not self._disk.is_folder(folder):
                make_folders(self._disk, folder)
            self._folders.add(folder)

    def _advance(self, count: int) -> None:
        self._done_bytes += count
        self._progress(self._done_bytes, self._snapshot.size)


def _restored_now(store_version: version.StoreVersion) -> bytes:
    return version.encode(store_version._replace(restored_ms=SystemClock().wall_ns() // NS_PER_MS))


def _check_root(disk: Disk, root: str, snapshot: Snapshot) -> None:
    """Raises an error if the root has anything but an unfinished restore of the same snapshot.

    The store's lock file and `lost+found` are allowed.
    """
    if not disk.exists(root):
        return
    if not disk.is_folder(root):
        raise BadName(f"{root}: is a file; the root must be a folder")
    names = set(disk.names(root))
    if version.FILE_NAME not in names and version.RESTORING_NAME in names:
        snapshot_id = _begun(disk, root)
        if snapshot_id == snapshot.snapshot_id:
            return
        raise AlreadyExists(
            f"{root}: a restore of another snapshot ({snapshot_id}) into this folder was not "
            f"finished; restore {snapshot_id} again to finish it, or restore into an empty folder"
        )
    # A restore that was interrupted while it wrote its first file.
    marks = {name for name in names if name.startswith(version.RESTORING_NAME)}
    surplus = sorted(names - _ALLOWED - marks)
    if surplus:
        raise AlreadyExists(f"{root}: is not empty ({surplus[0]}); restore into an empty folder")


def _begun(disk: Disk, root: str) -> str:
    path = os.path.join(root, version.RESTORING_NAME)
    try:
        document = json.loads(read_file(disk, path, size_max=_MARKER_BYTES_MAX))
        return str(document["snapshot_id"])
    except (ValueError, KeyError, TypeError, RecursionError, Corrupt, NotFound):
        return "unknown"


def _check_space(disk: Disk, root: str, snapshot: Snapshot) -> None:
    free_bytes = disk.free_bytes(root)
    restored_names = set(disk.names(root)) - _ALLOWED
    if not restored_names and free_bytes < snapshot.size:
        raise NoSpace(
            f"{root}: the disk has {format_bytes(free_bytes)} free, but the backup needs "
            f"{format_bytes(snapshot.size)}; free some space, or restore to another disk"
        )


def _mark(disk: Disk, root: str, snapshot: Snapshot) -> None:
    document = {"format": "lakebed restore", "version": 1, "snapshot_id": snapshot.snapshot_id}
    path = os.path.join(root, version.RESTORING_NAME)
    replace_atomically(disk, path, json.dumps(document).encode("ascii") + b"\n")


# After a failed sync.


def _distrust(disk: Disk, root: str) -> None:
    """Marks the restored files as not durable, so that the next restore writes all of them again.

    If the mark cannot be written, removes the files instead. The mark itself need not be durable:
    after a power cut, only data that is on disk is read.
    """
    with contextlib.suppress(LakebedError):
        disk.unlink(os.path.join(root, version.FILE_NAME))
    try:
        disk.create(os.path.join(root, _UNSYNCED_NAME)).close()
    except AlreadyExists:
        pass
    except LakebedError:
        with contextlib.suppress(LakebedError):
            _remove_contents(disk, root)


def _remove_untrusted(disk: Disk, root: str) -> None:
    path = os.path.join(root, _UNSYNCED_NAME)
    if disk.exists(path):
        _remove_contents(disk, root)
        disk.unlink(path)


def _remove_contents(disk: Disk, root: str) -> None:
    """Removes everything from the root except the lock, `lost+found` and the restore's marks."""
    for name in disk.names(root):
        if name not in _ALLOWED and name != _UNSYNCED_NAME:
            _remove(disk, os.path.join(root, name))


def _remove(disk: Disk, path: str) -> None:
    if not disk.is_folder(path):
        disk.unlink(path)
        return
    for name in disk.names(path):
        _remove(disk, os.path.join(path, name))
    disk.remove_folder(path)
