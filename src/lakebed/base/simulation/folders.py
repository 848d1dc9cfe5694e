"""The simulated folder tree. A power cut may lose entries of a folder that was not synced.

Each change (create, rename, unlink …) is one atomic unit, which is pending until one of the folders
that it changes is synced. A power loss keeps any subset of the pending units, or a prefix of them.
"""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.simulation.node import Keep, Node


class Folder:
    def __init__(self) -> None:
        self.cached: dict[str, Entry] = {}
        self.device: dict[str, Entry] = {}


Entry = Node | Folder


class Change(NamedTuple):
    """Sets or removes the entry of a name in a folder."""

    folder: Folder
    name: str
    entry: Entry | None


class Tree:
    """All folders of a disk, and their changes that are not durable yet."""

    def __init__(self) -> None:
        self.root = Folder()
        self._pending: list[list[Change]] = []

    def find(self, parts: tuple[str, ...]) -> Entry | None:
        entry: Entry | None = self.root
        for part in parts:
            if not isinstance(entry, Folder):
                return None
            entry = entry.cached.get(part)
        return entry

    def apply(self, *changes: Change) -> None:
        """Applies changes as one atomic unit. They are visible immediately, but not durable yet."""
        for change in changes:
            _put(change.folder.cached, change)
        self._pending.append(list(changes))

    def sync(self, folder: Folder) -> None:
        """Makes every pending unit that changes `folder` durable, in order."""
        later: list[list[Change]] = []
        for unit in self._pending:
            if any(change.folder is folder for change in unit):
                for change in unit:
                    _put(change.folder.device, change)
                    _forget(later, change)
            else:
                later.append(unit)
        self._pending = later

    def lose_power(self, keep_unit: Keep, keep_bytes: Keep) -> None:
        """Simulates a power loss. Durable changes and bytes are kept. `keep_unit` chooses which
        other changes of folders are kept, and `keep_bytes` which other bytes of files.
        """
        for unit in self._pending:
            if keep_unit(2):
                for change in unit:
                    _put(change.folder.device, change)
        self._pending = []
        for entry in self.entries(durable=True):
            if isinstance(entry, Folder):
                entry.cached = dict(entry.device)
            else:
                entry.lose_power(keep_bytes)

    def entries(self, *, durable: bool = False, below: Folder | None = None) -> list[Entry]:
        """Returns the folder `below`, by default the root, and all files and folders below it.

        With `durable`, ignores changes of folders that are not durable yet.
        """
        found: list[Entry] = []
        todo: list[Entry] = [below or self.root]
        while todo:
            entry = todo.pop()
            found.append(entry)
            if isinstance(entry, Folder):
                names = entry.device if durable else entry.cached
                todo.extend(names[name] for name in sorted(names))
        return found

    def file_paths(self) -> list[str]:
        """Returns the paths of all files, sorted."""
        paths: list[str] = []
        todo: list[tuple[str, Entry]] = [("", self.root)]
        while todo:
            path, entry = todo.pop()
            if isinstance(entry, Folder):
                todo.extend((f"{path}/{name}", child) for name, child in entry.cached.items())
            else:
                paths.append(path)
        return sorted(paths)

    def copy(self) -> Tree:
        """Returns an independent tree, including pending changes."""
        twins: dict[int, Entry] = {}

        def twin(entry: Entry) -> Entry:
            if id(entry) not in twins:
                if isinstance(entry, Node):
                    twins[id(entry)] = entry.copy()
                else:
                    folder = twins[id(entry)] = Folder()
                    folder.cached = {name: twin(child) for name, child in entry.cached.items()}
                    folder.device = {name: twin(child) for name, child in entry.device.items()}
            return twins[id(entry)]

        tree = Tree()
        root = twin(self.root)
        assert isinstance(root, Folder)
        tree.root = root
        for unit in self._pending:
            changes: list[Change] = []
            for change in unit:
                folder = twin(change.folder)
                assert isinstance(folder, Folder)
                entry = None if change.entry is None else twin(change.entry)
                changes.append(Change(folder, change.name, entry))
            tree._pending.append(changes)
        return tree


def _put(entries: dict[str, Entry], change: Change) -> None:
    if change.entry is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.entry


def _forget(units: list[list[Change]], newer: Change) -> None:
    """Drops pending changes of the same folder entry as `newer`, which is durable, so that they
    cannot undo it.
    """
    for unit in units:
        unit[:] = [
            change
            for change in unit
            if change.folder is not newer.folder or change.name != newer.name
        ]
