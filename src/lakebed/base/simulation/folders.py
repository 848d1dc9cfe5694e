"""The simulated folder tree, whose entries are lost in a power cut unless their folder was synced.

Each change of entries (create, rename, unlink …) is one atomic unit, pending until one of the
folders it touches is synced. A power loss keeps any subset of the pending units, or a prefix of
them.
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
    """The new entry of one name in one folder, or its removal."""

    folder: Folder
    name: str
    entry: Entry | None


class Tree:
    """All folders of a disk, and the changes to them that are not durable yet."""

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
        """Applies one atomic unit, visible at once."""
        for change in changes:
            _put(change.folder.cached, change)
        self._pending.append(list(changes))

    def sync(self, folder: Folder) -> None:
        """Makes every pending unit that touches `folder` durable, in order."""
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
        """Keeps only what is durable and the surviving part of the rest."""
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
        """Returns everything that can be reached from the root or from one folder."""
        found: list[Entry] = []
        todo: list[Entry] = [below or self.root]
        while todo:
            entry = todo.pop()
            found.append(entry)
            if isinstance(entry, Folder):
                names = entry.device if durable else entry.cached
                todo.extend(names[name] for name in sorted(names))
        return found

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
    """Drops an older pending change of the same name, which must not undo the newer, durable
    one.
    """
    for unit in units:
        unit[:] = [
            change
            for change in unit
            if change.folder is not newer.folder or change.name != newer.name
        ]
