"""Checks a backup: reads every part of a snapshot and compares it with its hash."""

from __future__ import annotations

from typing import NamedTuple

from lakebed.base.errors import Corrupt
from lakebed.base.progress import Progress, no_progress
from lakebed.store.backup.catalogue import Snapshot
from lakebed.store.backup.vault import Vault


class DamagedPart(NamedTuple):
    """A part that is missing or damaged, and the files of the store that need it."""

    digest: str
    problem: str
    paths: tuple[str, ...]


class CheckReport(NamedTuple):
    """The result of checking a snapshot."""

    snapshot: Snapshot
    part_count: int
    damaged: tuple[DamagedPart, ...]


def check_snapshot(
    vault: Vault, snapshot: Snapshot, *, progress: Progress = no_progress
) -> CheckReport:
    """Reads and checks all parts of a snapshot; returns all damage that was found.

    Calls `progress` with the number of parts checked so far, and of all parts.
    """
    parts = snapshot.parts()
    problems: dict[str, str] = {}
    for count, (digest, size) in enumerate(parts.items(), start=1):
        try:
            vault.part(digest, size=size)
        except Corrupt as error:
            problems[digest] = str(error)
        progress(count, len(parts))
    damaged = tuple(
        DamagedPart(
            digest, problem, tuple(file.path for file in snapshot.files if digest in file.parts)
        )
        for digest, problem in problems.items()
    )
    return CheckReport(snapshot, len(parts), damaged)
