"""The manifests as files, so that the metadata can be built again from them.

Nothing reads them while the metadata is there: they are written from its rows, in the background
and in batches, and a row says that its file is written only after the file and its entry in its
folder are durable. So what a crash leaves half-written belongs to a row that does not say so, and
is made anew.

A file is named by its version, in one of 256 folders: the id's first two digits.
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

_SYNCED_APART_MAX = 16  # more are cheaper with one sync of them all
_is_version_id = re.compile(r"[0-9a-f]{32}").fullmatch


class ManifestFiles:
    """For one thread at a time."""

    def __init__(self, folder: PathLike, *, disk: Disk) -> None:
        """`folder` is `objects/manifests` of the store, and is there."""
        self._folder = os.fspath(folder)
        self._disk = disk
        self._made: set[str] = set()  # folders that are there, durably
        self._failure: str | None = None

    def path(self, version_id: str) -> str:
        if not _is_version_id(version_id):
            raise BadName(f"{version_id!r} is no version's id")
        return os.path.join(self._folder, version_id[:2], version_id)

    def carry_out(
        self, pending: Sequence[tuple[str, int, Buffer | None]]
    ) -> tuple[list[str], list[str]]:
        """Write and remove files; the versions whose files are written, and removed, durably.

        If it raises, nothing is to be marked: all of it is done again the next time. After a
        failed sync of a folder, or of them all, that is the next opening: a second one could
        succeed without what the first lost.
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
        for folder in sorted({os.path.dirname(self.path(one)) for one in [*written, *removed]}):
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
        """A new file: what is left of an earlier attempt may have failed to sync."""
        path = self.path(version_id)
        self._make_folder(os.path.dirname(path))
        try:
            return self._disk.create(path)
        except AlreadyExists:
            self._disk.unlink(path)
            return self._disk.create(path)

    def _make_folder(self, folder: str) -> None:
        """Durably, before anything in it is said to be."""
        if folder in self._made:
            return
        with contextlib.suppress(AlreadyExists):
            self._disk.make_folder(folder)
        self._sync(self._disk.sync_folder, self._folder)
        self._made.add(folder)

    def _sync(self, sync: Callable[[str], None], folder: str) -> None:
        try:
            sync(folder)
        except SyncFailed as error:
            self._failure = str(error)
            raise
