"""Copies files of a store to a vault in parts, except the parts that the vault already has.

A file that never changes again is identified by its path, its size and its *seal*, the hash of its
first and last bytes (where its headers, footers and checksums are). If the previous snapshot has
such a file and the pool has its parts, only the first and last bytes are read. Every other file is
read completely, and the parts that the pool does not have are stored: for a file that only grew,
these are its last parts.

Invariant: each part is hashed and stored from a single read, so the hashes in the catalogue are
those of the bytes that were stored. It is an error if a file becomes shorter while it is copied
(`SourceChanged`), or if it cannot be opened or read (`Unreadable`).
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
_TRIES_MAX = 3  # how many times to copy a file that becomes shorter

Progress = Callable[[int], None]
"""Called after each part, and after each reused file, with the bytes copied or reused so far."""


class SourceChanged(RetryError):
    """A file became shorter while it was copied; copying it again may succeed."""


class Unreadable(Corrupt):
    """A file cannot be opened or read, or a folder cannot be listed."""

    def __init__(self, path: str, error: DiskError) -> None:
        why = str(error) if error.code is None else os.strerror(error.code)
        super().__init__(f"cannot be read ({why})", path=path)


class Copier:
    """Copies files into a vault. Not thread-safe. `files` are the files copied so far."""

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
        has_same_parts = previous is not None and previous.part_bytes == part_bytes
        reusable = previous.files if previous is not None and has_same_parts else ()
        self._previous: Mapping[str, BackedFile] = {
            file.path: file for file in reusable if file.seal
        }

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
        """Copies the first `end` bytes of a file, by default all, followed by zeros up to `size`.

        `is_sealed` means that the file never changes again. For a file outside the store, `name` is
        its path in the catalogue, and `disk` is the disk that it is on. Raises `NotFound` if there
        is no such file, `SourceChanged` if it is shorter than `end`, and `Unreadable` if it cannot
        be opened or read. A file whose path is not allowed in a backup is only reported in
        `problems`.
        """
        with _open(disk or self._disk, path) as file:
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
        """Copies an open file, as `copy` does; `name` is its path in the catalogue."""
        if not is_safe_path(name):  # it could not be restored, and the store has no such names
            self.problems.append(f"{name!r} is not copied: its path is not allowed in a backup")
            return
        end = _size(file) if end is None else end
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
        """Adds a file whose content was already read: `data`, followed by zeros up to `size`."""
        starts = range(0, len(data), self.part_bytes)
        parts = tuple(self._put(data[start : start + self.part_bytes]) for start in starts)
        name = self.name(path)
        self.files[name] = BackedFile(
            path=name, size=size or len(data), stored_bytes=len(data), parts=parts
        )

    def forget(self, prefix: str) -> None:
        """Removes the files whose names begin with `prefix` from `files`."""
        for name in [name for name in self.files if name.startswith(prefix)]:
            del self.files[name]

    def name(self, path: str) -> str:
        """Returns the path of a file relative to the root, as the catalogue has it."""
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
    """Copies every file below a folder as it is, without temporary files.

    Files that are removed meanwhile are skipped. Files and folders that cannot be read are added to
    the backup's problems.
    """
    if not disk.is_folder(folder):
        return
    try:
        names = disk.names(folder)
    except NotFound:
        return
    except DiskError as error:
        copier.problems.append(str(Unreadable(folder, error)))
        return
    for name in names:
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            copy_tree(copier, disk, path)
        elif not name.endswith(TEMPORARY_SUFFIX):
            copy_as_it_is(copier, path)


def copy_as_it_is(copier: Copier, path: str) -> None:
    """Copies a file without interpreting it; does nothing if the file does not exist.

    If the file cannot be opened or read, or becomes shorter at each try, adds that to the backup's
    problems.
    """
    for tries_left in reversed(range(_TRIES_MAX)):
        try:
            copier.copy(path)
            return
        except NotFound:
            return
        except Unreadable as error:
            copier.problems.append(str(error))
            return
        except SourceChanged as error:
            if not tries_left:
                copier.problems.append(str(error))


def _open(disk: Disk, path: str) -> File:
    try:
        return disk.open(path)
    except DiskError as error:
        raise Unreadable(path, error) from error


def _size(file: File) -> int:
    try:
        return file.size()
    except DiskError as error:
        raise Unreadable(file.path, error) from error


def _read(file: File, start: int, length: int) -> bytes:
    data = _read_range(file, start, length)
    if len(data) != length:
        raise SourceChanged(f"{file.path}: the file became shorter while it was copied")
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
