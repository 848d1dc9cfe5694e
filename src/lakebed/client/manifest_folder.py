"""The folder of a manifest log on the other side, for the engine's own readers.

What they open is fetched, in ranges, when they open it, and held no longer than they hold it. A
file that was removed since it was listed is not found, as on a disk.
"""

from __future__ import annotations

import os

from lakebed.base.errors import NotFound
from lakebed.base.files import PathLike
from lakebed.client.manifest_files import FETCH_BYTES, ManifestFiles


class RemoteFolder:
    """A `ReadableDisk` that has one folder, which is called as it is there. Thread-safe."""

    def __init__(self, files: ManifestFiles, folder: str) -> None:
        self._files = files
        self._folder = folder

    def open(self, path: PathLike) -> RemoteFile:
        """With its first bytes."""
        return RemoteFile(self._files, self._name(path))

    def exists(self, path: PathLike) -> bool:
        return self.is_folder(path) or self._name(path) in self.names(self._folder)

    def is_folder(self, path: PathLike) -> bool:
        return os.fspath(path) == self._folder

    def names(self, folder: PathLike) -> list[str]:
        """Those of manifest logs' files, and no others."""
        if not self.is_folder(folder):
            raise NotFound(f"{os.fspath(folder)}: no such folder")
        return [file.name for file in self._files.list()]

    def _name(self, path: PathLike) -> str:
        folder, name = os.path.split(os.fspath(path))
        if folder != self._folder or not name:
            raise NotFound(f"{os.fspath(path)}: no such file")
        return name


class RemoteFile:
    """A `ReadableFile`: its size, and its first bytes, are those of the moment it was opened."""

    def __init__(self, files: ManifestFiles, name: str) -> None:
        self._files = files
        self._name = name
        self._head, self._size = files.fetch(name, offset=0, length=FETCH_BYTES)

    def size(self) -> int:
        return self._size

    def pread(self, offset: int, length: int) -> bytes:
        found = bytearray(self._head[offset : offset + length])
        while len(found) < length and offset + len(found) < self._size:
            start = offset + len(found)
            wanted = min(length - len(found), self._size - start, FETCH_BYTES)
            data = self._files.fetch(self._name, offset=start, length=wanted).data
            if not data:
                break  # it became shorter
            found += data
        return bytes(found)

    def close(self) -> None:
        """Nothing is held open there."""

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
