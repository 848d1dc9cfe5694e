"""What must not survive a fork.

A forked child shares its parent's open files. If it kept the lock's descriptor, the store would
stay locked after the parent died; if it used a file, there would be two writers. So a child closes
every lock's descriptor (which leaves the parent's lock in place; unlocking would not), and every
handle opened before the fork is refused.

A program that is *executed* inherits nothing, because descriptors are opened close-on-exec.
"""

from __future__ import annotations

import os
from typing import Protocol

from lakebed.base.errors import Closed


class Droppable(Protocol):
    def drop(self) -> None:
        """Called in the child, where only the forking thread exists. Must close files and take
        no lock.
        """


class _Lineage:
    """The number of forks since the first process, and what the next child must drop."""

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
    """Returns the fork generation. A handle stores it when it is opened."""
    return _lineage.generation


def check(opened_in: int, path: str) -> None:
    """Refuses a handle that was opened before a fork."""
    if opened_in != _lineage.generation:
        raise Closed(f"{path}: opened before a fork; open it again in this process")


def hold(lock: Droppable) -> None:
    _lineage.held.add(lock)


def release(lock: Droppable) -> None:
    _lineage.held.discard(lock)
