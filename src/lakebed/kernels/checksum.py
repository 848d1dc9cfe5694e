"""BLAKE3, the checksum of objects, manifests and backups. The CRCs are in `lakebed.kernels`."""

from __future__ import annotations

from blake3 import blake3 as _blake3

from lakebed.base.layout import Buffer

BLAKE3_BYTES = 32


def blake3(data: Buffer) -> bytes:
    """Returns the 32-byte BLAKE3 digest of the data, computed in the calling thread alone."""
    return _blake3(data, max_threads=1).digest()


class Blake3:
    """Computes the BLAKE3 digest of data that arrives in pieces."""

    __slots__ = ("_hasher",)

    def __init__(self) -> None:
        self._hasher = _blake3(max_threads=1)

    def update(self, data: Buffer) -> None:
        self._hasher.update(data)

    def digest(self) -> bytes:
        """Returns the digest of all data so far. More data may follow."""
        return self._hasher.digest()
