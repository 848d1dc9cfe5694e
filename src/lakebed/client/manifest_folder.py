"""Presents the folder of a remote manifest log as a disk, for the engine's own readers.

The first bytes of a file are fetched when it is opened, and kept while the reader uses the file;
later bytes are fetched when they are read. Opening a file that was removed after it was listed
raises `NotFound`, as on a real disk.
"""

from __future__ import annotations

import os

from lakebed.base.errors import NotFound
from lakebed.base.files import PathLike
from lakebed.client.manifest_files import FETCH_BYTES, ManifestFiles


class RemoteFolder:
    """A `ReadableDisk` with a single folder, which has the same path as on the server.

    Thread-safe.
    """

    def __init__(self, files: ManifestFiles, folder: str) -> None:
        self._files = files
        self._folder = folder

    def open(self, path: PathLike) -> RemoteFile:
        """Opens a file, and fetches its first bytes."""
        return RemoteFile(self._files, self._name(path))

    def exists(self, path: PathLike) -> bool:
        return self.is_folder(path) or self._name(path) in self.names(self._folder)

    def is_folder(self, path: PathLike) -> bool:
        return os.fspath(path) == self._folder

    def names(self, folder: PathLike) -> list[str]:
        """Lists the files in the folder, except those that do not belong to a manifest log."""
        if not self.is_folder(folder):
            raise NotFound(f"{os.fspath(folder)}: no such folder")
        return [file.name for file in self._files.list()]

    def _name(self, path: PathLike) -> str:
        folder, name = os.path.split(os.fspath(path))
        if folder != self._folder or not name:
            raise NotFound(f"{os.fspath(path)}: no such file")
        return name


class RemoteFile:
    """A `ReadableFile` on the server.

    Its size and its first bytes are fetched when it is opened, later bytes when they are read.
    """

    def __init__(self, files: ManifestFiles, name: str) -> None:
        self._files = files
        self._name = name
        self._head, self._size = files.fetch(name, offset=0, length=FETCH_BYTES)

    def size(self) -> int:
        return self._size

    def pread(self, offset: int, length: int) -> bytes:
        content = bytearray(self._head[offset : offset + length])
        while len(content) < length and offset + len(content) < self._size:
            start = offset + len(content)
            size = min(length - len(content), self._size - start, FETCH_BYTES)
            data = self._files.fetch(self._name, offset=start, length=size).data
            if not data:
                break  # the file became shorter
            content += data
        return bytes(content)

    def close(self) -> None:
        """Does nothing, because the server keeps no file open."""

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
