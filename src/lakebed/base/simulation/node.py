"""One simulated file: the contents of the page cache, and what the device would still have.

Between two syncs every 512-byte sector that was written has several versions: the one on the device
and each one written since. A power loss keeps any of them, sector by sector, and any of the lengths
the file has had. Bytes that were never written read as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

SECTOR_BYTES = 512
BLOCK_BYTES = 4096
UNBOUNDED_BYTES = 1 << 40  # the capacity of a disk that no test fills

Keep = Callable[[int], int]
"""Chooses which of n versions survives: 0 is the device's, n - 1 the newest."""


class Node:
    def __init__(self) -> None:
        self.cached = bytearray()
        self.device = bytearray()
        self.sealed = False
        self.blocks: set[int] = set()  # block numbers that take space
        self._versions: dict[int, list[bytes]] = {}  # sector → contents since the last sync
        self._sizes: list[int] = []  # lengths since the last sync

    def write(self, offset: int, data: bytes | memoryview) -> None:
        end = offset + len(data)
        if end > len(self.cached):
            self.cached.extend(bytes(end - len(self.cached)))
        # After a sync that failed the device may be shorter than the page cache: pages that are
        # written after its end lengthen it when they reach it.
        if end > (self._sizes[-1] if self._sizes else len(self.device)):
            self._sizes.append(end)
        self.cached[offset:end] = data
        self._note_sectors(offset, end)

    def truncate(self, size: int) -> None:
        if size < len(self.cached):
            self._note_cut(size)
            del self.cached[size:]
            self.blocks = {block for block in self.blocks if block * BLOCK_BYTES < size}
        else:
            self.cached.extend(bytes(size - len(self.cached)))
        self._sizes.append(size)

    def sync(self) -> None:
        self._write_back(keep_everything)

    def fail_sync(self, keep: Keep, *, revert: bool) -> None:
        """Simulates a failed sync: some sectors reach the device, and the rest never will.

        The kernel marks the pages clean all the same. It may keep showing what was written
        (`revert` false) or read back the device's bytes; both happen in practice.
        """
        self._write_back(keep)
        if revert:
            self.cached = bytearray(self.device)

    def lose_power(self, keep: Keep) -> None:
        self._write_back(keep)
        self.cached = bytearray(self.device)
        self.sealed = False

    def flip_bit(self, offset: int, bit: int) -> None:
        """Damages bytes in a way that no sync repairs."""
        for content in (self.cached, self.device):
            if offset < len(content):
                content[offset] ^= 1 << bit

    def copy(self) -> Node:
        twin = Node()
        twin.cached, twin.device = bytearray(self.cached), bytearray(self.device)
        twin.sealed, twin.blocks = self.sealed, set(self.blocks)
        twin._versions = {sector: list(versions) for sector, versions in self._versions.items()}
        twin._sizes = list(self._sizes)
        return twin

    def _note_sectors(self, start: int, end: int) -> None:
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            content = bytes(self.cached[sector * SECTOR_BYTES : (sector + 1) * SECTOR_BYTES])
            self._versions.setdefault(sector, []).append(content)

    def _note_cut(self, size: int) -> None:
        """Records that bytes removed by a cut read as zero if the file grows again."""
        for sector in range(size // SECTOR_BYTES, -(-len(self.cached) // SECTOR_BYTES)):
            start = sector * SECTOR_BYTES
            content = bytes(self.cached[start : max(start, size)])
            self._versions.setdefault(sector, []).append(content)

    def _write_back(self, keep: Keep) -> None:
        """Brings the chosen versions to the device, then forgets all versions.

        Only what was written since the last sync is brought: a page that an earlier, failed sync
        marked clean is never written again.
        """
        sizes = [len(self.device), *self._sizes]
        size = sizes[keep(len(sizes))]
        for sector, versions in self._versions.items():
            choice = keep(len(versions) + 1)
            if choice:
                start = sector * SECTOR_BYTES
                self.device.extend(bytes(max(0, start + SECTOR_BYTES - len(self.device))))
                content = versions[choice - 1].ljust(SECTOR_BYTES, b"\0")
                self.device[start : start + SECTOR_BYTES] = content
        self.device.extend(bytes(max(0, size - len(self.device))))
        del self.device[size:]
        self._versions = {}
        self._sizes = []


def keep_nothing(_: int) -> int:
    return 0


def keep_everything(versions: int) -> int:
    return versions - 1


def keep_any(random: Random) -> Keep:
    return random.randrange
