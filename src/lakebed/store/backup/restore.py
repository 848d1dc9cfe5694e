"""Making a store from a backup, in a root that is empty or not there.

Every part is compared with its hash before it is written. `restoring.json` stands in the root from
the first moment on, and `store.json` comes last, when everything else is durable: what was cut in
between is opened by nobody, and the same restore goes on with it.

A sync that failed is not repeated: what it covered may look whole and be in memory alone.
`restoring.json.unsynced` says so, and the next restore here begins anew, with new files.

A part that is damaged costs the files that need it, and no others: all others are restored, and
the error names them. The root is then not complete, unless that is asked for (`salvage`). Of
`store.json` nothing is needed that is not known otherwise: it is then written anew.
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
_UNSYNCED_NAME = f"{version.RESTORING_NAME}.unsynced"  # none of the files is to be trusted
_MARKER_BYTES_MAX = 4 * KIB


class DamagedBackup(DataError):
    """Some files could not be restored; all others are there."""

    def __init__(self, address: str, damaged: list[str], *, root: str) -> None:
        more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        count = "1 file is" if len(damaged) == 1 else f"{len(damaged)} files are"
        super().__init__(
            f"{count} damaged in the backup ({'; '.join(damaged[:3])}{more}); "
            f"all others are in {root}, which is not a store yet: --salvage makes it one "
            "without them",
            path=address,
        )
        self.damaged = damaged


class RestoreReport(NamedTuple):
    """A store that is complete, but for what is named."""

    snapshot: Snapshot
    file_count: int
    byte_count: int
    damaged: tuple[str, ...]


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
    """`AlreadyExists` if something is in the root, `NoSpace` before anything is written.

    `connector` opens metadata on that disk.
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
        """Whether an earlier try came as far as this file; nobody else writes here."""
        if self._disk.is_folder(path):
            raise AlreadyExists(f"{path}: is a folder")
        with self._disk.open(path) as found:
            if found.size() != file.size:
                return False
            position = 0
            sizes = file.part_sizes(self._snapshot.part_bytes)
            for digest, size in zip(file.parts, sizes, strict=True):
                if blake3(found.pread(position, size)).hex() != digest:
                    return False
                position += size
        return True

    def _write_manifests(self) -> None:
        """The files of manifests, from the metadata: they are not in the backup by themselves."""
        paths = LakePaths(self._root)
        if not self._disk.exists(paths.database):
            return
        self._make_folder(paths.manifests)
        files = ManifestFiles(paths.manifests, disk=self._disk)
        after = ""
        while found := self._manifests(paths.database, after):
            files.carry_out([(version_id, TO_BE_WRITTEN, data) for version_id, data in found])
            after = found[-1][0]

    def _manifests(self, database: str, after: str) -> list[tuple[str, bytes]]:
        """Some of them; none if the metadata were damaged already when they were copied."""
        from lakebed.seglake.meta.connection import connect_read_only
        from lakebed.seglake.meta.copies import written_manifests

        try:
            return written_manifests(
                database, after, connector=self._connector or connect_read_only
            )
        except (UnknownVersion, SyncFailed):
            raise
        except (DataError, DiskError) as error:
            if not self._snapshot.problems:  # the backup told of it
                self._damaged.append(f"objects/manifests: {error}")
            return []

    def _store_version(self, last: BackedFile | None) -> bytes:
        """The bytes of `store.json`."""
        if last is None:  # only ever written by a bare log manager
            return self._new_version()
        sizes = last.part_sizes(self._snapshot.part_bytes)
        try:
            data = b"".join(
                self._vault.part(digest, size=size)
                for digest, size in zip(last.parts, sizes, strict=True)
            )
            found = version.decode(data, path=os.path.join(self._root, version.FILE_NAME))
        except Corrupt as error:
            self._damaged.append(f"{last.path}: {error}")
            return self._new_version()
        return _restored_now(found)

    def _new_version(self) -> bytes:
        """Of the store that the backups are of, as far as these tell."""
        created_ms = 0
        with contextlib.suppress(NotFound, DataError):
            created_ms = self._vault.marker().store_created_ms
        created_ms = created_ms or SystemClock().wall_ns() // NS_PER_MS
        return _restored_now(version.StoreVersion(version.VERSION, created_ms))

    def _finish(self, store_version: bytes) -> None:
        self._make_partitions()
        replace_atomically(self._disk, os.path.join(self._root, version.FILE_NAME), store_version)
        # It is a store now: whether the marker comes back after a power cut is all the same.
        self._disk.unlink(os.path.join(self._root, version.RESTORING_NAME))
        with contextlib.suppress(SyncFailed):
            self._disk.sync_folder(self._root)

    def _make_partitions(self) -> None:
        """Folders of partitions that never had a file: a backup holds no empty ones."""
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


def _restored_now(found: version.StoreVersion) -> bytes:
    return version.encode(found._replace(restored_ms=SystemClock().wall_ns() // NS_PER_MS))


def _check_root(disk: Disk, root: str, snapshot: Snapshot) -> None:
    """Empty, not there, or left behind by a restore of the same snapshot."""
    if not disk.exists(root):
        return
    if not disk.is_folder(root):
        raise BadName(f"{root}: is a file, the root must be a folder")
    names = set(disk.names(root))
    if version.FILE_NAME not in names and version.RESTORING_NAME in names:
        begun = _begun(disk, root)
        if begun == snapshot.snapshot_id:
            return
        raise AlreadyExists(
            f"{root}: a restore of another snapshot ({begun}) was begun here and not finished; "
            "finish it, or give an empty folder"
        )
    marks = {name for name in names if name.startswith(version.RESTORING_NAME)}  # cut short
    surplus = sorted(names - _ALLOWED - marks)
    if surplus:
        raise AlreadyExists(f"{root}: is not empty ({surplus[0]}); restore into an empty folder")


def _begun(disk: Disk, root: str) -> str:
    path = os.path.join(root, version.RESTORING_NAME)
    try:
        found = json.loads(read_file(disk, path, size_max=_MARKER_BYTES_MAX))
        return str(found["snapshot_id"])
    except (ValueError, KeyError, TypeError, RecursionError, Corrupt, NotFound):
        return "of which nothing is known"


def _check_space(disk: Disk, root: str, snapshot: Snapshot) -> None:
    free_bytes = disk.free_bytes(root)
    here = set(disk.names(root)) - _ALLOWED
    if not here and free_bytes < snapshot.size:
        raise NoSpace(
            f"{root}: {format_bytes(free_bytes)} free, the backup needs "
            f"{format_bytes(snapshot.size)}"
        )


def _mark(disk: Disk, root: str, snapshot: Snapshot) -> None:
    document = {"format": "lakebed restore", "version": 1, "snapshot_id": snapshot.snapshot_id}
    path = os.path.join(root, version.RESTORING_NAME)
    replace_atomically(disk, path, json.dumps(document).encode("ascii") + b"\n")


# After a failed sync.


def _distrust(disk: Disk, root: str) -> None:
    """Let nobody take what is here for durable: the next restore writes all of it anew.

    That this itself is durable does not matter: after a power cut the files show what they are.
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
    """All but the lock and what says that a restore was begun."""
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
