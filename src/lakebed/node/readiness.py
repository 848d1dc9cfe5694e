"""Checks whether a node is ready: its store is open, can be written, and has free space.

A check queries the file system and the engines, and writes nothing. While a check hangs, the page
`/readyz` starts no other, so its requests block only one thread if the disk hangs. The page is
public, so it reports only the kind and number of failures; the log has their names.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from lakebed.base.errors import LakebedError
from lakebed.base.events import event
from lakebed.base.units import MIB, format_bytes
from lakebed.store.failures import FailedPart
from lakebed.store.store import Store

ANSWER_S: Final = 2.0
FULL_BYTES: Final = 1 * MIB  # with less free space the disk counts as full, even without a reserve
FULL_INODES: Final = 16

_log = logging.getLogger(__name__)

_UNTIL_RESTART: Final = "refuse writes after a failed write, until the node is restarted"
_FAILED: Final = {
    "log": f"logs that {_UNTIL_RESTART}",
    "partition": f"partitions that {_UNTIL_RESTART}",
    "group": "groups that cannot be written now",
    "object store": f"object stores that {_UNTIL_RESTART}",
}


class ReadinessReport(NamedTuple):
    """The result of a check. `problems` is empty if the node is ready."""

    free_bytes: int | None  # None: unknown
    reserve_bytes: int
    problems: tuple[str, ...]
    failed: Sequence[FailedPart] = ()


class Readiness:
    """Runs checks for the `/readyz` page. Must be used in the thread of the event loop."""

    def __init__(
        self, store: Store, *, is_draining: Callable[[], bool], answer_s: float = ANSWER_S
    ) -> None:
        self._store = store
        self._is_draining = is_draining
        self._answer_s = answer_s
        self._looking: asyncio.Future[ReadinessReport] | None = None
        self._logged: set[tuple[str, str]] = set()  # kind and name of failures already logged

    async def problems(self) -> tuple[str, ...]:
        """Returns the reasons why the node is not ready, or an empty tuple if it is."""
        if self._is_draining():
            return ("the node is draining",)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(asyncio.to_thread(check_readiness, self._store))
        await asyncio.wait([self._looking], timeout=self._answer_s)
        if not self._looking.done():
            return (f"the disk has not answered for {self._answer_s:g} s",)
        report = self._looking.result()
        self._log_failures(report.failed)
        return report.problems

    def _log_failures(self, failed: Iterable[FailedPart]) -> None:
        """Logs the failures that did not exist at the previous check."""
        now = {(failure.kind, failure.name): failure.error for failure in failed}
        for kind, name in now.keys() - self._logged:
            why = now[kind, name]
            event(_log, "not_writable", level=logging.ERROR, kind=kind, name=name, why=why)
        self._logged = set(now)


def check_readiness(store: Store) -> ReadinessReport:
    """Checks whether the store can be written. Any thread may call it; it may wait for the disk."""
    reserve_bytes = reserve_of(store)
    if not store.is_open:
        return ReadinessReport(None, reserve_bytes, ("the store is closed",))
    try:
        free_bytes = store.disk.free_bytes(store.root)
        facts = os.statvfs(store.root)
    except (LakebedError, OSError) as error:
        return ReadinessReport(
            None,
            reserve_bytes,
            ("the store's folder cannot be read",),
            [FailedPart("folder", str(store.root), error)],
        )
    problems = []
    if facts.f_flag & os.ST_RDONLY or not os.access(store.root, os.W_OK):
        problems.append("the store's folder cannot be written")
    if free_bytes < reserve_bytes:
        problems.append(
            f"the disk has {_rounded(free_bytes)} free, and {format_bytes(reserve_bytes)} are "
            "kept in reserve: writes are refused"
        )
    elif free_bytes < FULL_BYTES:
        problems.append(f"the disk is full: {format_bytes(free_bytes)} are free")
    if facts.f_files and facts.f_favail < FULL_INODES:  # some file systems report none
        problems.append(f"the disk has {facts.f_favail} inodes free: no file can be created")
    failed = [failure for failure in store.failures() if failure.kind in _FAILED]
    counts = Counter(failure.kind for failure in failed)
    problems += [f"{_FAILED[kind]}: {count}" for kind, count in counts.items()]
    return ReadinessReport(free_bytes, reserve_bytes, tuple(problems), failed)


def reserve_of(store: Store) -> int:
    """Returns the largest disk reserve of all engines. With less free space, some writes are
    refused.
    """
    sections = store.configuration().values()
    return max(int(section.get("reserve_bytes", 0)) for section in sections)


def _rounded(size: int) -> str:
    return format_bytes(size // MIB * MIB) if size >= MIB else format_bytes(size)
