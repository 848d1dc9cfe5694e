"""A manifest log of a remote store, for an event loop.

    manifest = await store.manifest_log("orders")
    for position, record in (await manifest.reader).records(): …

The engine's reader is synchronous, so all files are fetched before it starts and are kept in
memory. Manifest logs are small.
"""

from __future__ import annotations

import os

from lakebed.aio.client.caller import Caller
from lakebed.aio.client.manifest_files import FETCH_BYTES, ManifestFiles
from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.api import manifests as wire
from lakebed.base.errors import NotFound
from lakebed.base.files import PathLike


class AsyncManifestLog:
    """The manifest log of a remote log. For one event loop."""

    def __init__(self, caller: Caller, found: wire.ManifestFiles) -> None:
        self.log = found.log
        self.stream = found.stream or ""  # 16 hex digits
        self.is_enabled = found.is_enabled
        self.damage = found.damage
        self._folder = found.folder
        self._files = ManifestFiles(caller, found.log)

    async def files(self) -> list[ManifestFile]:
        """Lists the files of the manifest log: its chunks and snapshots."""
        return await self._files.list()

    @property
    async def reader(self) -> ManifestReader:
        """Fetches all current files and returns a reader of them."""
        contents: dict[str, bytes] = {}
        for file in await self._files.list():
            try:
                contents[file.name] = await self._content(file.name)
            except NotFound:
                continue  # removed since it was listed
        return ManifestReader(FetchedFolder(self._folder, contents), ManifestPaths(self._folder))

    async def _content(self, name: str) -> bytes:
        data, size = await self._files.fetch(name, offset=0, length=FETCH_BYTES)
        content = bytearray(data)
        while len(content) < size:
            data, _ = await self._files.fetch(name, offset=len(content), length=FETCH_BYTES)
            if not data:
                break  # the file became shorter
            content += data
        return bytes(content)


class FetchedFolder:
    """A `ReadableDisk` with a single folder, whose files are in memory."""

    def __init__(self, folder: str, contents: dict[str, bytes]) -> None:
        self._folder = folder
        self._contents = contents

    def open(self, path: PathLike) -> FetchedFile:
        folder, name = os.path.split(os.fspath(path))
        if folder != self._folder or name not in self._contents:
            raise NotFound(f"{os.fspath(path)}: no such file")
        return FetchedFile(self._contents[name])

    def exists(self, path: PathLike) -> bool:
        folder, name = os.path.split(os.fspath(path))
        return self.is_folder(path) or (folder == self._folder and name in self._contents)

    def is_folder(self, path: PathLike) -> bool:
        return os.fspath(path) == self._folder

    def names(self, folder: PathLike) -> list[str]:
        if not self.is_folder(folder):
            raise NotFound(f"{os.fspath(folder)}: no such folder")
        return sorted(self._contents)


class FetchedFile:
    """A `ReadableFile` in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def pread(self, offset: int, length: int) -> bytes:
        return self._content[offset : offset + length]

    def close(self) -> None:
        """Does nothing."""

    def __enter__(self) -> FetchedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def find_manifest_log(caller: Caller, name: str) -> AsyncManifestLog | None:
    """Returns the manifest log of a log; None if the log never had one.

    `name` is the name of the log or its stream id. Raises `NotFound` if there is no such log.
    """
    page = await caller.call(wire.LOG_MANIFEST, {"log": name}, query=wire.FilesQuery(max_files=1))
    if page.stream is None:
        return None
    return AsyncManifestLog(caller, page)
