"""Refuses to open a root that has files in a newer format than this program supports.

`store.json` has the version of the store as a whole, and every engine refuses to open a newer file.
But a program opens logs, topics and buckets only when it needs them, and by then it may have
changed other files. So when the root is opened for writing, and another release of Lakebed was the
last to do so, or none is recorded, all files of the formats in `KINDS` are checked before anything
is changed. Each has its format and version in its first bytes or, if it is JSON, as fields.

Only newer files are refused here. Damaged and unreadable files and folders, and files of other
formats, are left to the engine that opens them, so that the other parts of the store can be used.
The manifests of objects are not checked: they are in the metadata database `meta.db`, whose version
is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from lakebed.aof import format as aof
from lakebed.aof import identity as log_identity
from lakebed.aof.interchange import INTERCHANGE_HEADER, INTERCHANGE_MAGIC, INTERCHANGE_VERSION
from lakebed.aof.manifest import format as manifest
from lakebed.base import damage_ledger
from lakebed.base.errors import Corrupt, DiskError, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike
from lakebed.base.layout import Layout
from lakebed.base.units import MIB
from lakebed.keratin import commit_ledger
from lakebed.keratin import format as keratin
from lakebed.keratin import identity as topic_identity
from lakebed.seglake import format as seglake
from lakebed.seglake.paths import SECRET_KEY_NAME, LakePaths
from lakebed.store import group_settings
from lakebed.stroma import format as stroma

_DOCUMENT_BYTES_MAX = 64 * MIB


class Kind(NamedTuple):
    """A binary file format whose files begin with a magic number and a version."""

    what: str
    layout: Layout[Any]
    magic: int | bytes
    version: int  # the newest version that this program supports

    def newer(self, data: bytes) -> int | None:
        """Returns the version in a file's first bytes if it is newer than this program supports.

        Otherwise returns None, and also if the bytes are too few or are of another format.
        """
        if len(data) < self.layout.size:
            return None
        header = self.layout.unpack(data)
        if header.magic != self.magic or header.version <= self.version:
            return None
        version: int = header.version
        return version


class Document(NamedTuple):
    """A JSON file format whose files name the format and its version."""

    what: str
    format: str
    version: int  # the newest version that this program supports

    def newer(self, data: bytes) -> int | None:
        try:
            document = json.loads(data)
            version = document["version"]
            is_newer = isinstance(version, int) and version > self.version
            if is_newer and document["format"] == self.format:
                return int(version)
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        return None


_SEGMENTS = (
    Kind("segment", aof.SEGMENT_HEADER, aof.SEGMENT_MAGIC, aof.SEGMENT_VERSION),
    Kind("interchange segment", INTERCHANGE_HEADER, INTERCHANGE_MAGIC, INTERCHANGE_VERSION),
)
_INDEXES = tuple(
    Kind("index", keratin.INDEX_HEADER, magic, keratin.VERSION)
    for magic in (keratin.INDEX_MAGIC, keratin.TIME_INDEX_MAGIC)
)

KINDS: Mapping[str, tuple[Kind | Document, ...]] = {
    damage_ledger.FILE_NAME: (
        Document("record of damage", damage_ledger.FORMAT, damage_ledger.VERSION),
    ),
    "aof/*/log.json": (Document("log", log_identity.FORMAT, log_identity.VERSION),),
    "aof/*/durable_end": (
        Kind("durable end", aof.DURABLE_END, aof.DURABLE_END_MAGIC, aof.DURABLE_END_VERSION),
    ),
    "aof/*/segments/current.sealed": (
        Kind("sealed pointer", aof.SEALED_POINTER, aof.POINTER_MAGIC, aof.POINTER_VERSION),
    ),
    "aof/*/segments/*.seg": _SEGMENTS,
    "aof/*/archive/*.seg": _SEGMENTS,
    "aof/*/manifest/*.mlog": (
        Kind("manifest", manifest.CHUNK_HEADER, manifest.CHUNK_MAGIC, manifest.CHUNK_VERSION),
    ),
    "aof/*/manifest/*/snapshot_*.bin": (
        Kind("manifest snapshot", manifest.SNAPSHOT_HEADER, manifest.SNAPSHOT_MAGIC,
             manifest.SNAPSHOT_VERSION),
    ),
    "topics/*/topic.json": (Document("topic", topic_identity.FORMAT, topic_identity.VERSION),),
    "topics/*/commits.json": (Document("commits", commit_ledger.FORMAT, commit_ledger.VERSION),),
    "topics/*/manifest.bin": (
        Kind("partition manifest", keratin.MANIFEST_HEADER, keratin.MANIFEST_MAGIC,
             keratin.VERSION),
    ),
    "topics/*/durable_end": (
        Kind("durable end", keratin.DURABLE_END, keratin.DURABLE_END_MAGIC, keratin.VERSION),
    ),
    "topics/*/commit.bin": (
        Kind("commit", keratin.COMMIT_HEADER, keratin.COMMIT_MAGIC, keratin.VERSION),
    ),
    "topics/*/segments/*.log": (
        Kind("topic segment", keratin.LOG_HEADER, keratin.LOG_MAGIC, keratin.VERSION),
    ),
    "topics/*/segments/*.*idx": _INDEXES,
    "topics/*/segments/*.producers": (
        Kind("producers", keratin.PRODUCERS_HEADER, keratin.PRODUCERS_MAGIC, keratin.VERSION),
    ),
    "groups/*.snap": (
        Kind("group snapshot", stroma.SNAPSHOT_HEADER, stroma.SNAPSHOT_MAGIC,
             stroma.SNAPSHOT_VERSION),
    ),
    "groups/*.delta": (
        Kind("group delta", stroma.DELTA_HEADER, stroma.DELTA_MAGIC, stroma.DELTA_VERSION),
    ),
    "groups/*.settings": (
        Document("group settings", group_settings.FORMAT, group_settings.VERSION),
    ),
    "objects/segments/*.seg": (
        Kind("object segment", seglake.SEGMENT_HEADER, seglake.SEGMENT_MAGIC,
             seglake.SEGMENT_VERSION),
    ),
    SECRET_KEY_NAME: (
        Kind("secret key", seglake.SECRET_KEY_FILE, seglake.SECRET_KEY_MAGIC,
             seglake.SECRET_VERSION),
    ),
}  # fmt: skip
"""The formats of files by their paths below the root; `*` also matches `/`."""

_FOLDERS = ("aof", "topics", "groups", "objects/segments")


def refuse_newer(disk: Disk, root: PathLike, *, with_metadata: bool) -> None:
    """Raises `UnknownVersion` if a file has a newer format version than this program supports.

    Checks all files below `root` whose format is in `KINDS`, and with `with_metadata` the metadata
    database `meta.db`. Files and folders that are damaged or cannot be read are skipped.
    `with_metadata` must be False for a simulated disk, because SQLite reads only the operating
    system's disk.
    """
    root = os.fspath(root)
    for path in _files(disk, root):
        name = os.path.relpath(path, root)
        for pattern, kinds in KINDS.items():
            if fnmatchcase(name, pattern):
                _check_file(disk, path, kinds)
    if with_metadata and disk.exists(LakePaths(root).database):
        _check_metadata(LakePaths(root).database)


def _files(disk: Disk, root: str) -> Iterator[str]:
    for name in (SECRET_KEY_NAME, damage_ledger.FILE_NAME):
        if disk.exists(os.path.join(root, name)):
            yield os.path.join(root, name)
    for folder in _FOLDERS:
        yield from _below(disk, os.path.join(root, folder))


def _below(disk: Disk, folder: str) -> Iterator[str]:
    if not disk.is_folder(folder):
        return
    try:
        names = disk.names(folder)
    except (NotFound, DiskError):
        return  # reported when the files in it are opened
    for name in names:
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            yield from _below(disk, path)
        else:
            yield path


def _check_file(disk: Disk, path: str, kinds: tuple[Kind | Document, ...]) -> None:
    length = max(
        kind.layout.size if isinstance(kind, Kind) else _DOCUMENT_BYTES_MAX for kind in kinds
    )
    try:
        with disk.open(path) as file:
            data = file.pread(0, length)
    except (NotFound, DiskError):
        return  # reported when the file is opened
    for kind in kinds:
        version = kind.newer(data)
        if version is not None:
            raise UnknownVersion(
                f"the {kind.what} was written by a newer version of Lakebed: "
                "use that version or a newer one",
                path=path,
                expected=f"at most {kind.version}",
                found=version,
            )


def _check_metadata(path: str) -> None:
    from lakebed.seglake.meta.copies import check_metadata_version

    try:
        check_metadata_version(path)
    except (Corrupt, DiskError):
        return  # reported when the object store is opened
