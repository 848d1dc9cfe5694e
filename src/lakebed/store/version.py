"""`store.json`: what a root is, and which version of a store it holds.

    {"format": "lakebed store", "version": 1, "created_ms": 1700000000000}

Written once, when the root is first opened for writing, by whoever holds the lock. A root without
it is new, or was only ever written by a bare `AofManager`: its logs are those of version 1.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import NamedTuple

from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.units import KIB

FILE_NAME = "store.json"
FORMAT = "lakebed store"
VERSION = 1
FILE_BYTES_MAX = 4 * KIB


class StoreVersion(NamedTuple):
    """What the file says."""

    version: int
    created_ms: int  # since 1970


def load(disk: Disk, root: PathLike) -> StoreVersion | None:
    """What the root's file says, None if there is none.

    `UnknownVersion` if it is newer than this program, `Corrupt` if it cannot be understood.
    """
    path = _path(root)
    try:
        data = read_file(disk, path, size_max=FILE_BYTES_MAX)
    except NotFound:
        return None
    return decode(data, path=path)


def ensure(disk: Disk, root: PathLike, *, now_ms: int) -> StoreVersion:
    """As `load`; creates the file if there is none. With the root's lock held."""
    found = load(disk, root)
    if found is not None:
        return found
    _remove_leftovers(disk, root)
    created = StoreVersion(VERSION, now_ms)
    replace_atomically(disk, _path(root), encode(created))
    return created


def encode(version: StoreVersion) -> bytes:
    document = {"format": FORMAT, **version._asdict()}
    return json.dumps(document).encode("ascii") + b"\n"


def decode(data: bytes, *, path: PathLike) -> StoreVersion:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise Corrupt("not a JSON document", path=path) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise Corrupt(f'not the version file of a store: "format" is not "{FORMAT}"', path=path)
    version = _number(document, "version", path)
    if version != VERSION:
        raise UnknownVersion(
            "a store of a version that is not read", path=path, expected=VERSION, found=version
        )
    return StoreVersion(version, _number(document, "created_ms", path))


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
