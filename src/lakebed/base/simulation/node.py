"""A simulated file: its contents in the page cache and on the device.

Between two syncs, every 512-byte sector that is written or cut off has several versions: the
version on the device, and one for each of these changes. A power loss keeps one of these versions
of each sector, and one of the lengths: that on the device, and those that the file has had since
the last sync. Bytes that were never written read as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

SECTOR_BYTES = 512
BLOCK_BYTES = 4096
UNBOUNDED_BYTES = 1 << 40  # the capacity of a disk that is never full

Keep = Callable[[int], int]
"""Chooses which of n versions, or of n lengths, survives: 0 is the one on the device, n - 1 the
newest."""


class Node:
    def __init__(self) -> None:
        self.cached = bytearray()
        self.device = bytearray()
        self.sealed = False  # declared sealed: changing the file is then an error
        self.blocks: set[int] = set()  # numbers of the blocks that use space
        self._versions: dict[int, list[bytes]] = {}  # sector → contents since the last sync
        self._sizes: list[int] = []  # lengths since the last sync

    def write(self, offset: int, data: bytes | memoryview) -> None:
        end = offset + len(data)
        if end > len(self.cached):
            self.cached.extend(bytes(end - len(self.cached)))
        # After a failed sync the file on the device may be shorter than in the page cache; pages
        # that are written after its end extend it.
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
        """Simulates a failed sync: some sectors reach the device, and the others never will, unless
        they are written again.

        The kernel nevertheless marks the pages as clean. Later reads return the bytes that were
        written or, if `revert` is set, the bytes on the device; both happen in practice.
        """
        self._write_back(keep)
        if revert:
            self.cached = bytearray(self.device)

    def lose_power(self, keep: Keep) -> None:
        self._write_back(keep)
        self.cached = bytearray(self.device)
        self.sealed = False

    def flip_bit(self, offset: int, bit: int) -> None:
        """Flips a bit in the page cache and on the device, to simulate damage.

        Does not change the unsynced versions of the sector: if there are any, the next sync removes
        the damage from the device, but not from the page cache. A later write to the sector keeps
        the damage, unless it overwrites the damaged byte.
        """
        for content in (self.cached, self.device):
            if offset < len(content):
                content[offset] ^= 1 << bit

    def overwrite(self, offset: int, data: bytes) -> None:
        """Overwrites bytes in the page cache and on the device, to simulate damage.

        Does not extend the file. Does not change the unsynced versions of the sectors; see
        `flip_bit`.
        """
        for content in (self.cached, self.device):
            content[offset : offset + len(data)] = data[: max(0, len(content) - offset)]

    def cut(self, size: int) -> None:
        """Truncates the file in the page cache and on the device, to simulate damage.

        Also drops the unsynced lengths, and the unsynced versions of sectors that end after `size`:
        the next sync or power loss does not restore them.
        """
        self.sealed = False  # a repair may write to what is left
        del self.cached[size:]
        del self.device[size:]
        self._versions = {
            sector: versions
            for sector, versions in self._versions.items()
            if (sector + 1) * SECTOR_BYTES <= size
        }
        self._sizes = []

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
        """Records that the truncated bytes read as zero if the file grows again."""
        for sector in range(size // SECTOR_BYTES, -(-len(self.cached) // SECTOR_BYTES)):
            start = sector * SECTOR_BYTES
            content = bytes(self.cached[start : max(start, size)])
            self._versions.setdefault(sector, []).append(content)

    def _write_back(self, keep: Keep) -> None:
        """Copies the versions and the length that `keep` chooses to the device, then drops all
        versions and lengths.

        Only versions since the last sync are copied: a page that an earlier, failed sync marked as
        clean is not written again.
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
