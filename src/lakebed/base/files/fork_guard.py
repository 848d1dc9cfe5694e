"""In a forked child, releases locks and sockets, and refuses to use files opened by the parent.

A forked child shares its parent's open files. If the child kept the descriptor of a lock, the store
would stay locked after the parent died; if it used a file, there would be two writers. So a child
closes the descriptors of all locks and of the servers' sockets, and every handle that was opened
before the fork raises `Closed`. Closing leaves the parent's lock in place; unlocking would not.

A program started with `exec` inherits no files, because descriptors are opened close-on-exec.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from lakebed.base.errors import Closed


class Droppable(Protocol):
    def drop(self) -> None:
        """Releases what a forked child must not keep.

        It runs in the child, where only the thread that called `fork` exists, so it must not wait
        for a lock.
        """


class _Lineage:
    """Counts the forks between the first process and this one, and lists the objects on which the
    next forked child calls `drop`.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.held: set[Droppable] = set()
        self.watched: WeakSet[Droppable] = WeakSet()

    def start_child(self) -> None:
        self.generation += 1
        held, self.held = self.held, set()
        watched, self.watched = self.watched, WeakSet()
        for lock in [*held, *watched]:
            lock.drop()


_lineage = _Lineage()
os.register_at_fork(after_in_child=_lineage.start_child)


def generation() -> int:
    """Returns the number of forks between the first process and this one. A handle stores the
    number when it is opened.
    """
    return _lineage.generation


def check(opened_in: int, path: str) -> None:
    """Raises `Closed` if a handle was opened in a parent process. `opened_in` is the `generation`
    that the handle stored.
    """
    if opened_in != _lineage.generation:
        raise Closed(f"{path}: opened before a fork; open it again in this process")


def hold(lock: Droppable) -> None:
    """Registers an owner of descriptors, such as a lock: a forked child calls its `drop`. The owner
    is kept in memory until `release`.
    """
    _lineage.held.add(lock)


def release(lock: Droppable) -> None:
    _lineage.held.discard(lock)


def watch(owner: Droppable) -> None:
    """Registers an owner of descriptors like `hold`, but does not keep it in memory.

    For an owner that closes its descriptors when it is garbage-collected. It need not be released.
    """
    _lineage.watched.add(owner)
