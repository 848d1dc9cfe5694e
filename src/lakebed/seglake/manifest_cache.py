"""A cache of decoded manifests that makes small reads of large objects cheap.

The cache never needs to be invalidated, because a version's manifest never changes. Only the
version's state can change, and callers read that from the version's row.
"""

from __future__ import annotations

from collections import OrderedDict

from lakebed.base.runner import Mutex
from lakebed.seglake.manifest import Manifest, decode

_COST_MAX = 32_768  # about 8 MiB of memory
_OVERHEAD_COST = 4  # of each manifest, in addition to 1 for each of its chunks


class ManifestCache:
    """A bounded cache of manifests, which evicts the least recently used first. Thread-safe."""

    def __init__(self, *, mutex: Mutex) -> None:
        self._mutex = mutex
        self._entries: OrderedDict[str, Manifest] = OrderedDict()  # guarded by _mutex
        self._cost = 0  # guarded by _mutex

    def decoded(self, version_id: str, data: bytes, *, path: str) -> Manifest:
        """Returns the version's manifest from the cache, or decodes it from `data`.

        `path` names the manifest in errors.
        """
        with self._mutex:
            cached = self._entries.get(version_id)
            if cached is not None:
                self._entries.move_to_end(version_id)
                return cached
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
