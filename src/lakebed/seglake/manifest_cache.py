"""Manifests that were decoded, so that small ranges of a large object are cheap.

A version's manifest never changes, so an entry is right for as long as anyone asks for it. What
changes, the version's state, is in its row.
"""

from __future__ import annotations

from collections import OrderedDict

from lakebed.base.runner import Mutex
from lakebed.seglake.manifest import Manifest, decode

_COST_MAX = 32_768  # some 8 MiB
_OVERHEAD_COST = 4  # of a manifest; a chunk costs 1


class ManifestCache:
    """Thread-safe. The least recently used goes first."""

    def __init__(self, *, mutex: Mutex) -> None:
        self._mutex = mutex
        self._entries: OrderedDict[str, Manifest] = OrderedDict()  # guarded by _mutex
        self._cost = 0  # guarded by _mutex

    def decoded(self, version_id: str, data: bytes, *, path: str) -> Manifest:
        """The manifest of that version, which has these bytes."""
        with self._mutex:
            found = self._entries.get(version_id)
            if found is not None:
                self._entries.move_to_end(version_id)
                return found
        manifest = decode(data, path=path)
        cost = _cost(manifest)
        with self._mutex:
            if cost <= _COST_MAX and version_id not in self._entries:
                self._entries[version_id] = manifest
                self._cost += cost
                while self._cost > _COST_MAX:
                    self._cost -= _cost(self._entries.popitem(last=False)[1])
        return manifest


def _cost(manifest: Manifest) -> int:
    return _OVERHEAD_COST + len(manifest.chunks)
