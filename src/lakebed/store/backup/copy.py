"""Files of a store become parts in a vault; what is there already is not copied again.

A file that never changes again is known by its path, its size and its *seal*, the hash of its
first and last bytes (where its headers, footers and checksums are): if the last snapshot has it,
and the pool its parts, it is not read again. Every other file is read, and those of its parts are
put that the pool does not have: of a file that only grew, the last one.

Invariant: what is noted is what was read, once; a file that changes underneath is an error, never
a mix. So is one that the disk does not give: it is damage of the store (`Unreadable`), and told
from the errors of the vault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from lakebed.base.errors import Corrupt, DiskError, NotFound, RetryError
from lakebed.base.files import TEMPORARY_SUFFIX, Disk, File
from lakebed.base.units import KIB
from lakebed.kernels.checksum import Blake3, blake3
from lakebed.store.backup.catalogue import PART_BYTES, BackedFile, Snapshot, is_safe_path
from lakebed.store.backup.vault import Vault

_HEAD_BYTES, _TAIL_BYTES = 4 * KIB, 64 * KIB
_TRIES_MAX = 3  # of a file that becomes shorter

Progress = Callable[[int], None]
"""Told how many bytes were looked at or copied, after each part."""


class SourceChanged(RetryError):
    """A file became shorter, or went away, while it was copied: look again."""


class Unreadable(Corrupt):
    """The disk does not give the bytes of a file."""

    def __init__(self, path: str, error: DiskError) -> None:
        why = "failed" if error.code is None else os.strerror(error.code)
        super().__init__(f"cannot be read ({why})", path=path)


class Copier:
    """For one thread at a time. `files` is what was copied so far."""

    def __init__(
        self,
        vault: Vault,
        *,
        disk: Disk,
        root: str,
        previous: Snapshot | None,
        progress: Progress,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self.files: dict[str, BackedFile] = {}
        self.problems: list[str] = []
        self.part_bytes = part_bytes
        self.put_count = 0  # parts
        self.put_bytes = 0
        self.done_bytes = 0
        self._vault = vault
        self._disk = disk
        self._root = root
        self._progress = progress
        self._pool = vault.pool()
        is_alike = previous is not None and previous.part_bytes == part_bytes
        known = previous.files if previous is not None and is_alike else ()
        self._previous: Mapping[str, BackedFile] = {file.path: file for file in known if file.seal}

    def copy(
        self,
        path: str,
        *,
        end: int | None = None,
        size: int | None = None,
        is_sealed: bool = False,
        disk: Disk | None = None,
        name: str | None = None,
    ) -> None:
        """The first `end` bytes of a file, or all; behind them zeros up to `size`.

        `NotFound` if it is not there. `name` is what it is called below the root, and `disk` where
        it is, if it is not simply there.
        """
        with (disk or self._disk).open(path) as file:
            self.copy_open(name or self.name(path), file, end=end, size=size, is_sealed=is_sealed)

    def copy_open(
        self,
        name: str,
        file: File,
        *,
        end: int | None = None,
        size: int | None = None,
        is_sealed: bool = False,
    ) -> None:
        """The same of a file that is open."""
        if not is_safe_path(name):  # nobody could restore it, and the store has no such names
            self.problems.append(f"{name!r} is not copied: its name cannot be used")
            return
        end = file.size() if end is None else end
        size = end if size is None else size
        seal = _seal(file, end) if is_sealed else ""
        before = self._previous.get(name) if seal else None
        if before is not None and self._is_same(before, end=end, size=size, seal=seal):
            self.files[name] = before
            self._advance(end)
            return
        parts = [
            self._put(_read(file, start, min(self.part_bytes, end - start)))
            for start in range(0, end, self.part_bytes)
        ]
        self.files[name] = BackedFile(
            path=name, size=size, stored_bytes=end, parts=tuple(parts), seal=seal
        )

    def add(self, path: str, data: bytes, *, size: int | None = None) -> None:
        """What was read already."""
        starts = range(0, len(data), self.part_bytes)
        parts = tuple(self._put(data[start : start + self.part_bytes]) for start in starts)
        name = self.name(path)
        self.files[name] = BackedFile(
            path=name, size=size or len(data), stored_bytes=len(data), parts=parts
        )

    def forget(self, prefix: str) -> None:
        """Everything below a folder, to begin anew with it."""
        for name in [name for name in self.files if name.startswith(prefix)]:
            del self.files[name]

    def name(self, path: str) -> str:
        """As the catalogue has it."""
        return os.path.relpath(path, self._root)

    def _is_same(self, before: BackedFile, *, end: int, size: int, seal: str) -> bool:
        is_file = (before.stored_bytes, before.size, before.seal) == (end, size, seal)
        sizes = before.part_sizes(self.part_bytes)
        return is_file and all(
            self._pool.get(digest) == part_bytes
            for digest, part_bytes in zip(before.parts, sizes, strict=True)
        )

    def _put(self, data: bytes) -> str:
        digest = blake3(data).hex()
        if self._pool.get(digest) != len(data):
            self._vault.put_part(digest, data)
            self._pool[digest] = len(data)
            self.put_count += 1
            self.put_bytes += len(data)
        self._advance(len(data))
        return digest

    def _advance(self, count: int) -> None:
        self.done_bytes += count
        self._progress(self.done_bytes)


def copy_tree(copier: Copier, disk: Disk, folder: str) -> None:
    """Every file below a folder as it is now; what goes away meanwhile is not needed."""
    if not disk.is_folder(folder):
        return
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            copy_tree(copier, disk, path)
        elif not name.endswith(TEMPORARY_SUFFIX):
            copy_as_it_is(copier, path)


def copy_as_it_is(copier: Copier, path: str) -> None:
    """A file that is not to be understood; what is wrong with it is told."""
    for left in reversed(range(_TRIES_MAX)):
        try:
            copier.copy(path)
            return
        except NotFound:
            return
        except Unreadable as error:
            copier.problems.append(str(error))
            return
        except SourceChanged as error:
            if not left:
                copier.problems.append(str(error))


def _read(file: File, start: int, length: int) -> bytes:
    data = _read_range(file, start, length)
    if len(data) != length:
        raise SourceChanged(f"{file.path}: became shorter while it was copied")
    return data


def _seal(file: File, end: int) -> str:
    hasher = Blake3()
    hasher.update(_read_range(file, 0, min(_HEAD_BYTES, end)))
    start = max(0, end - _TAIL_BYTES)
    hasher.update(_read_range(file, start, end - start))
    return hasher.digest().hex()


def _read_range(file: File, start: int, length: int) -> bytes:
    try:
        return file.pread(start, length)
    except DiskError as error:
        raise Unreadable(file.path, error) from error
