"""Stores the settings that consumer groups have of their own, in one file per group.

    {"format": "lakebed group", "version": 1, "config": {"lease_ms": 5000}}

`config` has only the group's own settings: those that the caller named, or, if the caller passed a
complete configuration, those that differ from the store's. Every setting that is not in the file
has the store's current value each time the group is opened. A group without own settings has no
file.

The file is in the same folder as the group's files of partition 0. It is written after those exist
and removed before them. If they are lost, deleting the group may leave it; so it is also removed
before a group is created. A later group of the same name never inherits it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace

from lakebed.base.config import Value, field_names, load
from lakebed.base.errors import BadConfig, Corrupt, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike, read_file, replace_atomically
from lakebed.base.units import MIB
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.paths import GroupName, GroupPaths

FORMAT = "lakebed group"
VERSION = 1


class GroupSettings:
    """Reads and writes the settings of all groups of a store.

    The caller must ensure that only one thread at a time writes the settings of a group.
    """

    def __init__(self, disk: Disk, root: PathLike, *, defaults: GroupConfig) -> None:
        self._disk = disk
        self._root = root
        self._defaults = defaults

    def config(self, topic: str, group: str) -> GroupConfig:
        """Returns all settings of a group; those that are not its own have the store's values.

        Raises `Corrupt` if the group's file is damaged, and `UnknownVersion` if a newer version of
        Lakebed wrote it.
        """
        path = self._path(topic, group)
        try:
            data = read_file(self._disk, path, size_max=MIB)
        except NotFound:
            return self._defaults
        return replace(self._defaults, **_decode(data, path))  # type: ignore[arg-type]

    def keep(
        self, topic: str, group: str, config: GroupConfig, *, named: Collection[str] | None = None
    ) -> None:
        """Stores a group's own settings durably. Its files of partition 0 must already exist.

        `named` are the names of the settings to store; None means those whose values differ from
        the store's. If there are none, the file is removed.
        """
        path = self._path(topic, group)
        if named is None:
            named = self._differing(config)
        own = {name: getattr(config, name) for name in field_names(GroupConfig) if name in named}
        if not own:
            self.remove(topic, group)
        elif not self._is_kept(path, own):
            document = {"format": FORMAT, "version": VERSION, "config": own}
            replace_atomically(self._disk, path, json.dumps(document).encode("ascii") + b"\n")

    def remove(self, topic: str, group: str) -> None:
        """Durably removes a group's own settings, if there are any."""
        GroupPaths(self._root, GroupName(topic, 0, group)).remove_settings(self._disk)

    def _differing(self, config: GroupConfig) -> set[str]:
        names = field_names(GroupConfig)
        return {name for name in names if getattr(config, name) != getattr(self._defaults, name)}

    def _is_kept(self, path: str, own: Mapping[str, Value]) -> bool:
        try:
            return _decode(read_file(self._disk, path, size_max=MIB), path) == own
        except (NotFound, Corrupt):  # a damaged file is replaced
            return False

    def _path(self, topic: str, group: str) -> str:
        return GroupPaths(self._root, GroupName(topic, 0, group)).settings


def _decode(data: bytes, path: str) -> dict[str, Value]:
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError
        version, config = document["version"], document["config"]
        if isinstance(version, int) and version > VERSION:
            raise UnknownVersion(
                "the settings of the group were written by a newer version of Lakebed: "
                "use that version or a newer one",
                path=path,
                expected=VERSION,
                found=version,
            )
        if version != VERSION or not isinstance(config, dict):
            raise ValueError
        loaded = load(GroupConfig, config, where=path)
    except (ValueError, KeyError, RecursionError):
        raise Corrupt(
            "the settings of the group are damaged: open the group with settings, which replaces "
            "the file",
            path=path,
        ) from None
    except BadConfig as error:
        raise Corrupt(
            f"the settings of the group are damaged: {error}; open the group with settings, "
            "which replaces the file",
            path=path,
        ) from None
    return {name: getattr(loaded, name) for name in config}
