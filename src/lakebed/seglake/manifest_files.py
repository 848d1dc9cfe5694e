"""Manifest files, one per version, kept so that a lost metadata database could be rebuilt.

A background task writes them in batches from the manifests in the database. Only verification reads
them. The database marks a manifest's row as written only after the manifest's file and the file's
directory entry are durable. So the row of a file that a crash left incomplete is not marked, and
the file is written again.

A file is named by its version id, in one of 256 folders named by the id's first two digits.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence

from lakebed.base.errors import AlreadyExists, BadName, NotFound, Poisoned, SyncFailed
from lakebed.base.files import Disk, File, PathLike
from lakebed.base.layout import Buffer

TO_BE_WRITTEN, WRITTEN, TO_BE_REMOVED = range(3)  # `file_state` of a manifest's row

_SYNCED_APART_MAX = 16  # larger batches are cheaper with one sync of the whole tree
_is_version_id = re.compile(r"[0-9a-f]{32}").fullmatch


class ManifestFiles:
    """Writes and removes manifest files. Not thread-safe."""

    def __init__(self, folder: PathLike, *, disk: Disk) -> None:
        """`folder` is `objects/manifests` of the store and must exist."""
        self._folder = os.fspath(folder)
        self._disk = disk
        self._durable_folders: set[str] = set()
        self._failure: str | None = None

    def path(self, version_id: str) -> str:
        if not _is_version_id(version_id):
            raise BadName(f"{version_id!r} is not a valid version id")
        return os.path.join(self._folder, version_id[:2], version_id)

    def carry_out(
        self, pending: Sequence[tuple[str, int, Buffer | None]]
    ) -> tuple[list[str], list[str]]:
        """Writes and removes the manifest files in `pending`, durably.

        Each entry is a version id, the `file_state` of its row, and the encoded manifest (None for
        a removal). Removing a file that does not exist succeeds. Returns the version ids of the
        files written, and of the files removed. If it raises, the caller must mark no row as done,
        and pass the same rows again later. After a failed sync of a folder, every call raises
        `Poisoned` until the store is opened again, because a second sync could succeed without
        making the lost data durable.
        """
        if self._failure is not None:
            raise Poisoned("write", self._folder, why=self._failure)
        written = [version_id for version_id, state, _ in pending if state == TO_BE_WRITTEN]
        removed = [version_id for version_id, state, _ in pending if state == TO_BE_REMOVED]
        is_large = len(pending) > _SYNCED_APART_MAX
        for version_id, state, data in pending:
            if state == TO_BE_WRITTEN:
                assert data is not None, "a manifest that is to be written has bytes"
                self._write(version_id, data, sync=not is_large)
            elif state == TO_BE_REMOVED:
                with contextlib.suppress(NotFound):
                    self._disk.unlink(self.path(version_id))
        if is_large:
            self._sync(self._disk.sync_tree, self._folder)
            return written, removed
        for folder in sorted(
            {os.path.dirname(self.path(version_id)) for version_id in [*written, *removed]}
        ):
            with contextlib.suppress(NotFound):  # nothing was ever written there
                self._sync(self._disk.sync_folder, folder)
        return written, removed

    def _write(self, version_id: str, data: Buffer, *, sync: bool) -> None:
        with self._create(version_id) as file:
            if sync:
                file.write_and_sync(0, [data])
            else:
                file.pwrite(0, data)

    def _create(self, version_id: str) -> File:
        """Creates the manifest file; replaces an existing file, whose sync may have failed."""
        path = self.path(version_id)
        self._make_folder(os.path.dirname(path))
        try:
            return self._disk.create(path)
        except AlreadyExists:
            self._disk.unlink(path)
            return self._disk.create(path)

    def _make_folder(self, folder: str) -> None:
        """Creates the folder and makes its directory entry durable."""
        if folder in self._durable_folders:
            return
        with contextlib.suppress(AlreadyExists):
            self._disk.make_folder(folder)
        self._sync(self._disk.sync_folder, self._folder)
        self._durable_folders.add(folder)

    def _sync(self, sync: Callable[[str], None], folder: str) -> None:
        try:
            sync(folder)
        except SyncFailed as error:
            self._failure = str(error)
            raise
