"""What must not outlive a fork.

A forked child shares its parent's open files. If it kept the lock's descriptor, the store would
stay locked after the parent died; if it used a file, two writers would be at work. So in a child
every lock's descriptor is closed (which leaves the parent's lock alone; unlocking would not) and
every handle opened before the fork is refused.

A program that is *executed* inherits nothing: descriptors are opened close-on-exec.
"""

from __future__ import annotations

import os
from typing import Protocol

from lakebed.base.errors import Closed


class Droppable(Protocol):
    def drop(self) -> None:
        """Called in the child, where only the forking thread lives: close, take no lock."""


class _Lineage:
    """How many forks lie between the first process and this one, and what the next must drop."""

    def __init__(self) -> None:
        self.generation = 0
        self.held: set[Droppable] = set()

    def start_child(self) -> None:
        self.generation += 1
        held, self.held = self.held, set()
        for lock in held:
            lock.drop()


_lineage = _Lineage()
os.register_at_fork(after_in_child=_lineage.start_child)


def generation() -> int:
    """Stored by a handle when it is opened."""
    return _lineage.generation


def check(opened_in: int, path: str) -> None:
    """Refuse a handle that was opened before a fork."""
    if opened_in != _lineage.generation:
        raise Closed(f"{path}: opened before a fork; open it again in this process")


def hold(lock: Droppable) -> None:
    _lineage.held.add(lock)


def release(lock: Droppable) -> None:
    _lineage.held.discard(lock)
