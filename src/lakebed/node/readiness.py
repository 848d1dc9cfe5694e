"""Whether a node can do its work: its store is open, can be written, and has room.

A look asks the file system and writes nothing. One that has not come back is waited for, not
repeated: a disk that hangs takes one thread, however often somebody asks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.base.units import MIB, format_bytes
from lakebed.store.store import Store

ANSWER_S: Final = 2.0


class Look(NamedTuple):
    """`problems` is empty if all is well."""

    free_bytes: int
    reserve_bytes: int
    problems: tuple[str, ...]


class Readiness:
    """In the loop's thread."""

    def __init__(
        self, store: Store, *, is_draining: Callable[[], bool], answer_s: float = ANSWER_S
    ) -> None:
        self._store = store
        self._is_draining = is_draining
        self._answer_s = answer_s
        self._looking: asyncio.Future[Look] | None = None

    async def problems(self) -> tuple[str, ...]:
        """Why it is not ready, a line each."""
        if self._is_draining():
            return ("the node is draining",)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(look, self._store))
        await asyncio.wait([self._looking], timeout=self._answer_s)
        if not self._looking.done():
            return (f"the disk has not answered for {self._answer_s:g} s",)
        return self._looking.result().problems


def look(store: Store) -> Look:
    """In any thread; it may wait for the disk."""
    reserve_bytes = reserve_of(store)
    if not store.is_open:
        return Look(0, reserve_bytes, ("the store is closed",))
    try:
        free_bytes = store.disk.free_bytes(store.root)
        flags = os.statvfs(store.root).f_flag
    except (LakebedError, OSError) as error:
        return Look(0, reserve_bytes, (f"the store's folder cannot be looked at: {error}",))
    problems = []
    if flags & os.ST_RDONLY or not os.access(store.root, os.W_OK):
        problems.append("the store's folder cannot be written")
    if free_bytes < reserve_bytes:
        problems.append(
            f"the disk has {_rounded(free_bytes)} free, and {format_bytes(reserve_bytes)} are "
            "kept in reserve: writes are refused"
        )
    return Look(free_bytes, reserve_bytes, tuple(problems))


def reserve_of(store: Store) -> int:
    """The largest that any engine keeps: below it some writes are refused."""
    sections = store.configuration().values()
    return max(int(section.get("reserve_bytes", 0)) for section in sections)


def _rounded(size: int) -> str:
    return format_bytes(size // MIB * MIB) if size >= MIB else format_bytes(size)
