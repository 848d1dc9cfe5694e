"""The store of a command that writes: opened here, or that of the program that has it open.

    with open_writer(run.root) as store: ...

Who has a store open serves its socket, and does there what the command would have done itself; so
what is printed is the same. Nothing of the client is imported while nobody holds the lock. A
program that holds it and serves no socket is waited for, for a while: it may be just opening or
closing the store; then it is told as `Locked`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from lakebed.api.surface import Store as Writer
    from lakebed.base.errors import LakebedError
    from lakebed.client.store import RemoteStore
    from lakebed.host.store import Store

Found = TypeVar("Found")

LOCK_WAIT_S = 5.0
_FOLDERS = ("aof", "topics", "quarantine")  # of a root, whose files are told


def open_writer(root: Path, *, retry_s: float | None = None) -> Writer:
    """`retry_s`: how long a call of the other program is repeated while nobody answers."""
    from lakebed.host.store import Store

    return here_or_there(root, lambda: Store.open(root), retry_s=retry_s)


def here_or_there(
    root: Path, here: Callable[[], Found], *, retry_s: float | None = None
) -> Found | RemoteStore:
    """What is done here if the lock is free, else the store of who holds it."""
    from lakebed.base.errors import Locked

    try:
        return here()
    except Locked:
        return _whichever_works(root, here, retry_s=retry_s)


def reopened(root: Path, error: LakebedError, *, retry_s: float | None = None) -> Writer:
    """The store, once the program that had it open does not answer any more.

    One that closed the store took the file of its socket with it: then it is opened here, unless
    yet another program has it open. One that was killed left the file behind: its store is left
    to who starts that program again. If nobody does, the error is raised.
    """
    from lakebed.base.errors import Locked
    from lakebed.host.local_server import SOCKET_NAME
    from lakebed.host.store import Store

    def here() -> Store:
        if os.path.lexists(os.path.join(root, SOCKET_NAME)):
            raise Locked("killed, or just opening the store")
        return Store.open(root)

    try:
        return _whichever_works(root, here, retry_s=retry_s)
    except Locked:
        raise error from None


def _whichever_works(
    root: Path, here: Callable[[], Found], *, retry_s: float | None
) -> Found | RemoteStore:
    from random import Random
    from secrets import randbits

    from lakebed.base.runner import ThreadRunner
    from lakebed.client.retry_schedule import RETRY_S
    from lakebed.host.connect import first_of, served

    with ThreadRunner() as runner:
        return first_of(
            lambda: served(root, retry_s=RETRY_S if retry_s is None else retry_s),
            here,
            runner=runner,
            random=Random(randbits(64)),
            wait_s=LOCK_WAIT_S,
        )


def as_named_here(texts: Sequence[str], store: Writer, root: Path) -> tuple[str, ...]:
    """Texts that begin with a path of the store, with its root as it is named here."""
    if not texts:
        return ()
    there = os.path.abspath(store.root)
    return tuple(_as_named_here(text, there, root) for text in texts)


def _as_named_here(text: str, there: str, root: Path) -> str:
    for folder in _FOLDERS:
        before, _, behind = text.partition(f"{os.sep}{folder}{os.sep}")
        # Absolute, or as it is seen from wherever that program was started.
        if behind and os.path.join(os.sep, there).endswith(os.path.normpath(before)):
            return os.path.join(root, folder, behind)
    return text
