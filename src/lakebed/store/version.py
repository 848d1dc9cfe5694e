"""`store.json`: what a root is, and which version of a store it holds.

    {"format": "lakebed store", "version": 1, "created_ms": 1700000000000, "program": "1.0.0"}

Written when the root is first opened for writing, by the holder of the lock, and again when it is
opened by another release: `program` is the one that opened it last. A store that was restored from
a backup also has `restored_ms`, when that was: leases that were given out before are not its own.

A root without the file is new, or was only ever written by a bare `AofManager`: its logs are those
of version 1; or it is being restored from a backup: then `restoring.json` is there, and the root
cannot be opened.
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
    """The root is an unfinished restore. Run the restore again."""

    def __init__(self, root: PathLike) -> None:
        super().__init__(
            f"{os.fspath(root)}: a restore was begun here and not finished: run it again, or "
            "restore into an empty folder"
        )


class StoreVersion(NamedTuple):
    """What the file says."""

    version: int
    created_ms: int  # since 1970
    restored_ms: int = 0  # since 1970; 0 if it never was
    program: str = ""  # the release that opened it last; stores before there was this have none


def load(disk: Disk, root: PathLike) -> StoreVersion | None:
    """What the root's file says, None if there is none.

    `UnknownVersion` if it is newer than this program, `Corrupt` if it cannot be understood, and
    `UnfinishedRestore` while, or after, the root is restored from a backup.
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
    """As `load`; creates the file if there is none, and notes who opens it. With the lock held."""
    found = load(disk, root)
    if found is not None and found.program == program:
        return found
    _remove_leftovers(disk, root)
    noted = StoreVersion(VERSION, now_ms) if found is None else found
    noted = noted._replace(program=program)
    replace_atomically(disk, _path(root), encode(noted))
    return noted


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
        raise Corrupt("not a JSON document", path=path) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Corrupt(f'not the version file of a store: "format" is not "{FORMAT}"', path=path)
    version = _number(document, "version", path)
    if version > VERSION:
        raise UnknownVersion(
            "a store written by a newer version of Lakebed, which is needed to open it",
            path=path,
            expected=f"at most {VERSION}",
            found=version,
        )
    if version < VERSION:
        raise UnknownVersion(
            "a store of a version that never was", path=path, expected=VERSION, found=version
        )
    program = document.get("program", "")
    if not isinstance(program, str):
        raise Corrupt('"program" is not a text', path=path)
    restored_ms = _number(document, "restored_ms", path) if "restored_ms" in document else 0
    return StoreVersion(version, _number(document, "created_ms", path), restored_ms, program)


def _number(document: dict[str, object], name: str, path: PathLike) -> int:
    value = document.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Corrupt(f'"{name}" is not a number', path=path)
    return value


def _path(root: PathLike) -> str:
    return os.path.join(os.fspath(root), FILE_NAME)


def _remove_leftovers(disk: Disk, root: PathLike) -> None:
    """What a creation left behind that was cut short; the root has other people's files too."""
    for name in disk.names(root):
        if name.startswith(f"{FILE_NAME}.") and name.endswith(TEMPORARY_SUFFIX):
            with contextlib.suppress(NotFound):
                disk.unlink(os.path.join(os.fspath(root), name))
