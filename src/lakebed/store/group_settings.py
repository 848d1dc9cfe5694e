"""The settings of groups that have their own, each kept beside its group's files.

    {"format": "lakebed group", "version": 1, "config": {"lease_ms": 5000}}

`config` has only what is the group's own, as in `topic.json`: what was named, or what differs from
the store's settings where all of them were given. The rest is as the store's are whenever the group
is opened. A group without such a file has the store's. It stands beside the files of partition 0,
is written when these are there, and goes first when they go: no other group of that name ever
inherits it.
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
    """Of all groups of a store. Its user sees to it that one at a time writes for a group."""

    def __init__(self, disk: Disk, root: PathLike, *, defaults: GroupConfig) -> None:
        self._disk = disk
        self._root = root
        self._defaults = defaults

    def config(self, topic: str, group: str) -> GroupConfig:
        """What counts when the group is opened and nothing else is said."""
        path = self._path(topic, group)
        try:
            data = read_file(self._disk, path, size_max=MIB)
        except NotFound:
            return self._defaults
        return replace(self._defaults, **_decode(data, path))  # type: ignore[arg-type]

    def keep(
        self, topic: str, group: str, config: GroupConfig, *, named: Collection[str] | None = None
    ) -> None:
        """Durable when it returns. The group has files.

        `named` are the settings that are its own; None: those that differ from the store's.
        """
        path = self._path(topic, group)
        if named is None:
            named = self._differing(config)
        own = {name: getattr(config, name) for name in field_names(GroupConfig) if name in named}
        if not own:
            GroupPaths(self._root, GroupName(topic, 0, group)).remove_settings(self._disk)
        elif not self._is_kept(path, own):
            document = {"format": FORMAT, "version": VERSION, "config": own}
            replace_atomically(self._disk, path, json.dumps(document).encode("ascii") + b"\n")

    def _differing(self, config: GroupConfig) -> set[str]:
        names = field_names(GroupConfig)
        return {one for one in names if getattr(config, one) != getattr(self._defaults, one)}

    def _is_kept(self, path: str, own: Mapping[str, Value]) -> bool:
        try:
            return _decode(read_file(self._disk, path, size_max=MIB), path) == own
        except (NotFound, Corrupt):  # what is damaged is replaced
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
            raise UnknownVersion("settings of a group", path=path, expected=VERSION, found=version)
        if version != VERSION or not isinstance(config, dict):
            raise ValueError
        loaded = load(GroupConfig, config, where=path)
    except (ValueError, KeyError, RecursionError):
        raise Corrupt("not the settings of a group: say them again", path=path) from None
    except BadConfig as error:
        raise Corrupt(f"not the settings of a group: {error}", path=path) from None
    return {name: getattr(loaded, name) for name in config}
