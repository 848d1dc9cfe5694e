"""The folder of a manifest log on the other side, for the engine's own readers.

What they open is fetched, in ranges, when they open it, and held no longer than they hold it. A
file that was removed since it was listed is not found, as on a disk.
"""

from __future__ import annotations

import os

from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.paths import parse_file_name
from lakebed.api import manifests as wire
from lakebed.base.errors import NotFound
from lakebed.base.files import PathLike
from lakebed.base.units import MIB
from lakebed.client.caller import Caller
from lakebed.client.errors import BadAnswer
from lakebed.client.segment_range import SegmentRange, range_of

FETCH_BYTES = 8 * MIB  # of one answer


class RemoteFolder:
    """A `ReadableDisk` that has one folder, which is called as it is there. Thread-safe."""

    def __init__(self, caller: Caller, log: str, folder: str) -> None:
        self._caller = caller
        self._log = log
        self._folder = folder

    def open(self, path: PathLike) -> RemoteFile:
        """With its first bytes."""
        return RemoteFile(self, self._name(path))

    def exists(self, path: PathLike) -> bool:
        return self.is_folder(path) or self._name(path) in self.names(self._folder)

    def is_folder(self, path: PathLike) -> bool:
        return os.fspath(path) == self._folder

    def names(self, folder: PathLike) -> list[str]:
        """Those of manifest logs' files, and no others."""
        if not self.is_folder(folder):
            raise NotFound(f"{os.fspath(folder)}: no such folder")
        return [file.name for file in self.files()]

    def files(self) -> list[ManifestFile]:
        """All there are, by name."""
        found: list[ManifestFile] = []
        after: str | None = ""
        while after is not None:
            page = self._caller.call(
                wire.LOG_MANIFEST, {"log": self._log}, query=wire.FilesQuery(after=after)
            )
            for file in page.files:
                _check_name(file)
            found += page.files
            if page.next_after is not None and page.next_after <= after:
                raise BadAnswer(f"{wire.LOG_MANIFEST.name}: a page that leads nowhere")
            after = page.next_after
        return found

    def fetch(self, name: str, *, offset: int, length: int) -> SegmentRange:
        answer = self._caller.ask(
            wire.LOG_MANIFEST_BYTES,
            {"log": self._log, "file": name},
            query=wire.FileRangeQuery(offset=offset, length=length),
        )
        return range_of(answer, wire.LOG_MANIFEST_BYTES.name, offset=offset)

    def _name(self, path: PathLike) -> str:
        folder, name = os.path.split(os.fspath(path))
        if folder != self._folder or not name:
            raise NotFound(f"{os.fspath(path)}: no such file")
        return name


class RemoteFile:
    """A `ReadableFile`: its size, and its first bytes, are those of the moment it was opened."""

    def __init__(self, folder: RemoteFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._head, self._size = folder.fetch(name, offset=0, length=FETCH_BYTES)

    def size(self) -> int:
        return self._size

    def pread(self, offset: int, length: int) -> bytes:
        found = bytearray(self._head[offset : offset + length])
        while len(found) < length and offset + len(found) < self._size:
            start = offset + len(found)
            wanted = min(length - len(found), self._size - start, FETCH_BYTES)
            data = self._folder.fetch(self._name, offset=start, length=wanted).data
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


def _check_name(file: ManifestFile) -> None:
    if parse_file_name(file.name) != (file.kind, file.number):
        raise BadAnswer(f"{wire.LOG_MANIFEST.name}: a file that no manifest log has")
