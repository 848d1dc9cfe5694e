"""Checksums of the formats: crc32c, crc64-nvme with its 32-bit fold, and BLAKE3.

Both CRCs are incremental: `crc(b, crc(a)) == crc(a + b)`. The compiled loops of
`lakebed.kernels` have CRCs of their own; these serve whoever has one buffer to check.
"""

from __future__ import annotations

from blake3 import blake3 as _blake3

from lakebed.base.layout import Buffer

BLAKE3_BYTES = 32


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Castagnoli's CRC-32, as Keratin, Kafka, iSCSI and ext4 use it."""
    # Imported where used, as the next: they take longer to load than most commands take to run.
    from crc32c import crc32c as calculate

    return calculate(data, crc)


def crc64nvme(data: Buffer, crc: int = 0) -> int:
    """The NVMe CRC-64, as AOF2 and S3's CRC64NVME use it."""
    from awscrt.checksums import crc64nvme as calculate

    return int(calculate(data, crc))


def fold64(crc: int) -> int:
    """A 64-bit CRC folded into 32 bits: the upper half XOR the lower half."""
    return (crc >> 32) ^ (crc & 0xFFFFFFFF)


def blake3(data: Buffer) -> bytes:
    """BLAKE3, 32 bytes, in this thread alone."""
    return _blake3(data, max_threads=1).digest()


class Blake3:
    """BLAKE3 of bytes that arrive in pieces."""

    __slots__ = ("_hasher",)

    def __init__(self) -> None:
        self._hasher = _blake3(max_threads=1)

    def update(self, data: Buffer) -> None:
        self._hasher.update(data)

    def digest(self) -> bytes:
        """Of everything so far; more may follow."""
        return self._hasher.digest()
