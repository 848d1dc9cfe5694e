"""A manifest log of a store that another process has open, read by the engine's own readers.

    found = store.manifest_log("orders")
    for position, record in found.reader.records(): …

As `lakebed.store.manifest_logs.ManifestLog`: errors name the files by their paths there.
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
    """Thread-safe. Nothing of it is held here: each reading asks again."""

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
        """Its chunks and snapshots."""
        return self._files.list()


def find_manifest_log(caller: Caller, name: str) -> RemoteManifestLog | None:
    """None if nothing was ever recorded of the log; `NotFound` if there is none."""
    found = caller.call(wire.LOG_MANIFEST, {"log": name}, query=wire.FilesQuery(max_files=1))
    if found.stream is None:
        return None
    return RemoteManifestLog(caller, found)
