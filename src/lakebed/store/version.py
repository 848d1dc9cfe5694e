"""`store.json`: marks a root as a store, and records the version of its format.

    {"format": "lakebed store", "version": 1, "created_ms": 1700000000000, "program": "1.0.0"}

The process that holds the lock writes the file when the root is first opened for writing, and again
when another release opens it: `program` is the release that last opened the root for writing. A
store that was restored from a backup also has `restored_ms`, the time of the restore: leases from
before that are refused.

A root without the file is either new, or was written only by an `AofManager` (its logs are those of
version 1), or is being restored from a backup. In the last case it has `restoring.json` and cannot
be opened.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import NamedTuple

from lakebed.base.errors import Corrupt, InputError, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.units import KIB

FILE_NAME = "store.json"
RESTORING_NAME = "restoring.json"
FORMAT = "lakebed store"
VERSION = 1
FILE_BYTES_MAX = 4 * KIB


class UnfinishedRestore(InputError):
    """A restore into the root was not finished. Run the restore again."""

    def __init__(self, root: PathLike) -> None:
        super().__init__(
            f"{os.fspath(root)}: a restore into this folder was not finished: run it again, or "
            "restore into an empty folder"
        )


class StoreVersion(NamedTuple):
    """The content of `store.json`."""

    version: int
    created_ms: int  # since 1970
    restored_ms: int = 0  # since 1970; 0 if the store was never restored
    program: str = ""  # the release that last opened it for writing; empty if not recorded


def load(disk: Disk, root: PathLike) -> StoreVersion | None:
    """Loads the root's `store.json`; returns None if there is none.

    Raises `UnknownVersion` if it has a version that this program cannot read, `Corrupt` if it is
    damaged, and `UnfinishedRestore` if a restore into the root is running or was interrupted.
    """
    path = _path(root)
    try:
        data = read_file(disk, path, size_max=FILE_BYTES_MAX)
    except NotFound:
        if disk.exists(os.path.join(os.fspath(root), RESTORING_NAME)):
            raise UnfinishedRestore(root) from None
        return None
    return decode(data, path=path)


def ensure(disk: Disk, root: PathLike, *, now_ms: int, program: str = "") -> StoreVersion:
    """Loads `store.json`; writes it if it does not exist or another release wrote it.

    The caller must hold the lock.
    """
    existing = load(disk, root)
    if existing is not None and existing.program == program:
        return existing
    _remove_leftovers(disk, root)
    updated = StoreVersion(VERSION, now_ms) if existing is None else existing
    updated = updated._replace(program=program)
    replace_atomically(disk, _path(root), encode(updated))
    return updated


def encode(version: StoreVersion) -> bytes:
    document: dict[str, object] = {"format": FORMAT, **version._asdict()}
    for name, unset in (("restored_ms", 0), ("program", "")):
        if document[name] == unset:
            del document[name]
    return json.dumps(document).encode("ascii") + b"\n"


def decode(data: bytes, *, path: PathLike) -> StoreVersion:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise Corrupt("the file is not a JSON document", path=path) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Corrupt(f'not the version file of a store: "format" is not "{FORMAT}"', path=path)
    version = _number(document, "version", path)
    if version > VERSION:
        raise UnknownVersion(
            "the store was written by a newer version of Lakebed: use that version or a newer one",
            path=path,
            expected=f"at most {VERSION}",
            found=version,
        )
    if version < VERSION:
        raise UnknownVersion(
            "the store has an invalid version", path=path, expected=VERSION, found=version
        )
    program = document.get("program", "")
    if not isinstance(program, str):
        raise Corrupt('"program" is not a string', path=path)
    restored_ms = _number(document, "restored_ms", path) if "restored_ms" in document else 0
    return StoreVersion(version, _number(document, "created_ms", path), restored_ms, program)


def _number(document: dict[str, object], name: str, path: PathLike) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Corrupt(f'"{name}" is not an integer of 0 or more', path=path)
    return value


def _path(root: PathLike) -> str:
    return os.path.join(os.fspath(root), FILE_NAME)


def _remove_leftovers(disk: Disk, root: PathLike) -> None:
    """Removes the temporary files that an interrupted write of `store.json` left."""
    for name in disk.names(root):
        if name.startswith(f"{FILE_NAME}.") and name.endswith(TEMPORARY_SUFFIX):
            with contextlib.suppress(NotFound):
                disk.unlink(os.path.join(os.fspath(root), name))
