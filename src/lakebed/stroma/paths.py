"""The paths and file names of a group.

    groups/<topic>-<partition>_<group>.snap     the last snapshot
                                      .delta    the events since then
                                      .json     the names, if they are too long for a file name
                                      .settings the group's own settings, if any; partition 0 only
                                      .removal  while the group is being deleted; partition 0 only

In the names of topic and group, every byte that is not an ASCII letter, a digit or a dot is
percent-encoded, including `-` and `_`. So no two names collide, and no name can lead to a path
outside of the folder. The stem is the file name without its extension. A stem longer than 200 bytes
is replaced by `~` and its BLAKE3 hash; no encoded name begins with `~`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from lakebed.base.errors import BadName, Corrupt, NotFound, TooLarge
from lakebed.base.files import Disk, PathLike, make_folders, read_file, replace_atomically
from lakebed.kernels.checksum import blake3

FOLDER_NAME = "groups"
STEM_BYTES_MAX = 200
NAME_BYTES_MAX = 32_767  # of a topic or a group
PARTITION_MAX = (1 << 31) - 1

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.")
_STEM = re.compile(
    r"((?:[A-Za-z0-9.]|%[0-9A-F]{2})+)-(0|[1-9][0-9]{0,9})_((?:[A-Za-z0-9.]|%[0-9A-F]{2})+)",
    re.ASCII,
)
_HASHED = re.compile(r"~[0-9a-f]{64}", re.ASCII)
_JSON_BYTES_MAX = 16 * NAME_BYTES_MAX
_REMOVAL_BYTES_MAX = 2 * _JSON_BYTES_MAX
REMOVAL_ENDING = ".removal"


class GroupName(NamedTuple):
    """Identifies the part of a group that belongs to one partition of a topic."""

    topic: str
    partition: int
    group: str

    def tp_hash(self) -> int:
        return _hash(f"{self.topic}-{self.partition}")

    def group_hash(self) -> int:
        return _hash(self.group)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.group}"


class GroupPaths:
    """The paths of one group's files in one partition, below `<root>/groups/`."""

    def __init__(self, root: PathLike, name: GroupName) -> None:
        self.name = name
        self.folder = os.path.join(os.fspath(root), FOLDER_NAME)
        self.quarantine = os.path.join(os.fspath(root), "quarantine")
        self.stem = encode_stem(name)
        self.snapshot = os.path.join(self.folder, f"{self.stem}.snap")
        self.delta = os.path.join(self.folder, f"{self.stem}.delta")
        self.names = os.path.join(self.folder, f"{self.stem}.json")
        self.settings = os.path.join(self.folder, f"{self.stem}.settings")
        self.removal = os.path.join(self.folder, self.stem + REMOVAL_ENDING)

    def ensure(self, disk: Disk) -> None:
        """Durably creates the folder.

        If the stem is a hash, also creates the `.json` file with the names.
        """
        make_folders(disk, self.folder)
        if _HASHED.fullmatch(self.stem) and not disk.exists(self.names):
            replace_atomically(disk, self.names, json.dumps(self.name._asdict()).encode())

    def remove(self, disk: Disk) -> None:
        """Removes all files of the group in this partition, if there are any.

        A `.removal` file is not removed: see `removal`.
        """
        self.remove_settings(disk)
        for path in (self.delta, self.snapshot, self.names):
            if disk.exists(path):
                disk.unlink(path)
        if disk.is_folder(self.folder):
            disk.sync_folder(self.folder)

    def remove_settings(self, disk: Disk) -> None:
        """Durably removes the group's own settings.

        Otherwise a new group of the same name would get them.
        """
        if disk.exists(self.settings):
            disk.unlink(self.settings)
            disk.sync_folder(self.folder)


def encode_stem(name: GroupName) -> str:
    """Returns the file name of the group without its extension."""
    if not 0 <= name.partition <= PARTITION_MAX:
        raise BadName(f"partition {name.partition}: must be 0 to {PARTITION_MAX}")
    topic, group = (_encode(text, what) for text, what in ((name.topic, "topic"),
                                                            (name.group, "group")))  # fmt: skip
    stem = f"{topic}-{name.partition}_{group}"
    return stem if len(stem) <= STEM_BYTES_MAX else "~" + blake3(stem.encode()).hex()


def decode_stem(stem: str) -> GroupName | None:
    """Returns the name that a stem encodes; None for a hashed or invalid stem."""
    match = _STEM.fullmatch(stem)
    if match is None or len(stem) > STEM_BYTES_MAX:
        return None
    try:
        name = GroupName(_decode(match[1]), int(match[2]), _decode(match[3]))
        return name if encode_stem(name) == stem else None
    except (UnicodeDecodeError, BadName):
        return None


def list_groups(disk: Disk, root: PathLike) -> list[GroupName]:
    """Returns the groups that have a snapshot or a delta log and are not being deleted.

    The names are sorted; a group has one name for each of its partitions that has these files.
    Files whose stem is invalid, or is a hash without a valid `.json` file, are ignored.
    """
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return []
    names = disk.names(folder)
    stems = {
        stem
        for stem, dot, ending in (name.rpartition(".") for name in names)
        if dot and ending in ("snap", "delta")
    }
    stems -= {encode_stem(name) for name in groups_being_removed(disk, folder, names)}
    groups = []
    for stem in stems:
        name = decode_stem(stem)
        if name is None and _HASHED.fullmatch(stem):
            name = _read_names(disk, os.path.join(folder, f"{stem}.json"), stem)
        if name is not None:
            groups.append(name)
    return sorted(groups)


def groups_being_removed(disk: Disk, folder: str, names: Iterable[str]) -> list[GroupName]:
    """Returns the groups that are listed in the removal files among `names`; see `removal`."""
    paths = [os.path.join(folder, name) for name in names if name.endswith(REMOVAL_ENDING)]
    return [name for path in paths for name in read_removal(disk, path) or ()]


def read_removal(disk: Disk, path: str) -> list[GroupName] | None:
    """Returns the groups that a removal file lists, or None if the file is damaged.

    Returns an empty list if the file does not exist.
    """
    try:
        stored = json.loads(read_file(disk, path, size_max=_REMOVAL_BYTES_MAX))
        topic, group = str(stored["topic"]), str(stored["group"])
        return [GroupName(topic, int(number), group) for number in stored["partitions"]]
    except NotFound:  # the removal was finished in the meantime
        return []
    except (Corrupt, ValueError, KeyError, TypeError):
        return None


def _read_names(disk: Disk, path: str, stem: str) -> GroupName | None:
    try:
        stored = json.loads(read_file(disk, path, size_max=_JSON_BYTES_MAX))
        name = GroupName(str(stored["topic"]), int(stored["partition"]), str(stored["group"]))
        return name if encode_stem(name) == stem else None
    except (NotFound, Corrupt, ValueError, KeyError, TypeError, BadName):
        return None


def _encode(text: str, what: str) -> str:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise BadName(f"{what} {text[:60]!r}: the name is not valid Unicode") from None
    if not data:
        raise BadName(f"the name of a {what} must not be empty")
    if len(data) > NAME_BYTES_MAX:
        raise TooLarge(f"the length of a {what} name, in bytes,", size=len(data),
                       limit=NAME_BYTES_MAX)  # fmt: skip
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in data)


def _decode(text: str) -> str:
    first, *escaped = text.encode().split(b"%")
    return b"".join([first, *(bytes([int(part[:2], 16)]) + part[2:] for part in escaped)]).decode()


def _hash(text: str) -> int:
    return int.from_bytes(blake3(text.encode())[:8], "big")
