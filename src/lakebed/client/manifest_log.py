"""A manifest log of a remote store, read with the engine's own readers.

    manifest = store.manifest_log("orders")
    for position, record in manifest.reader.records(): …

The remote form of `lakebed.store.manifest_logs.ManifestLog`. Errors name files by their paths on
the server.
"""

from __future__ import annotations

from lakebed.aof.manifest.files import ManifestFile
from lakebed.aof.manifest.paths import ManifestPaths
from lakebed.aof.manifest.reader import ManifestReader
from lakebed.api import manifests as wire
from lakebed.client.caller import Caller
from lakebed.client.manifest_files import ManifestFiles
from lakebed.client.manifest_folder import RemoteFolder


class RemoteManifestLog:
    """The manifest log of a remote log. Thread-safe. Nothing is cached: each read fetches the files
    again."""

    def __init__(self, caller: Caller, found: wire.ManifestFiles) -> None:
        self.log = found.log
        self.stream = found.stream or ""  # 16 hex digits
        self.is_enabled = found.is_enabled
        self.damage = found.damage
        self._files = ManifestFiles(caller, found.log)
        self.reader = ManifestReader(
            RemoteFolder(self._files, found.folder), ManifestPaths(found.folder)
        )

    def files(self) -> list[ManifestFile]:
        """Lists the files of the manifest log: its chunks and snapshots."""
        return self._files.list()


def find_manifest_log(caller: Caller, name: str) -> RemoteManifestLog | None:
    """Returns the manifest log of a log; None if the log has none.

    `name` is the name of the log or its stream id. Raises `NotFound` if there is no such log.
    """
    page = caller.call(wire.LOG_MANIFEST, {"log": name}, query=wire.FilesQuery(max_files=1))
    if page.stream is None:
        return None
    return RemoteManifestLog(caller, page)
