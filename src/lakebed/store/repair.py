"""Repairs a log: removes torn bytes at its end, and copies damaged bytes to the quarantine.

Opening a log for writing runs recovery, which overwrites torn bytes with zeros, but normally checks
only the last segments. A repair then verifies all segments in Tier 0 and in the archive, and copies
the damaged ranges to the quarantine folder. It does not change the damaged segments: their good
records stay readable, and they can still be repaired by hand.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from lakebed.aof.inspection import Verdict
from lakebed.aof.manager import LOCK_NAME
from lakebed.aof.paths import LogPaths
from lakebed.base.damage_ledger import QUARANTINE_NAME
from lakebed.base.errors import DiskError
from lakebed.base.files import Disk, build_atomically
from lakebed.base.files.protocol import File
from lakebed.base.progress import Progress
from lakebed.base.units import MIB
from lakebed.store.logs import require_log
from lakebed.store.segment_continuity import Outline, neighbour_problems, outline_of
from lakebed.store.store import Store
from lakebed.store.verification import Problem, Verification, check_segment

_COPY_BYTES = 4 * MIB


class RepairReport(NamedTuple):
    """What a repair did, or what it would do."""

    torn_bytes: int  # how many bytes of an unfinished write were, or would be, removed
    problems: tuple[str, ...]  # the other damage, which the repair does not remove
    quarantined: tuple[str, ...]  # files with copies of damaged bytes; none in a preview


def repair(store: Store, name: str, *, progress: Progress) -> RepairReport:
    """Repairs a log: opens it, which runs recovery, and verifies its segments.

    Segments in Tier 0 and in the archive are verified, and their damaged bytes are copied to the
    quarantine folder. If the log was already open, recovery ran when it was opened, and the report
    has the result of that. Raises `NotFound` if there is no such log.
    """
    paths = require_log(store.disk, store.root, name)
    recovered = store.log(name).recovered
    problems = list(recovered.problems)
    before = _quarantine_names(store.disk, store.root, name)
    saved = [path for path in before if any(path in problem for problem in problems)]
    verification = Verification(store.disk, paths)
    for problem in _all_problems(store.disk, verification, progress):
        problems.append(str(problem))
        target = _save(store.disk, paths, problem)
        if target is not None and target not in saved:
            saved.append(target)
    return RepairReport(recovered.torn_bytes, tuple(problems), tuple(saved))


def preview_while_open(store: Store, name: str, *, progress: Progress) -> RepairReport:
    """Reports what `repair` would find in a log that may be in use; changes nothing.

    If the log's durable end is known, bytes after it are not checked, because a write of them may
    be in progress.
    """
    paths = require_log(store.disk, store.root, name)
    return _preview(_all_problems(store.disk, Verification(store.disk, paths), progress))


def preview_repair(disk: Disk, root: str, name: str, *, progress: Progress) -> RepairReport:
    """Reports what `repair` would find in a log; changes nothing.

    Raises `NotFound` if there is no such log, and `Locked` if a process has the store open for
    writing.
    """
    paths = require_log(disk, root, name)
    lock = disk.lock(os.path.join(root, LOCK_NAME))
    try:
        verification = Verification(disk, paths, whole_tail=True)
        return _preview(_all_problems(disk, verification, progress))
    finally:
        lock.release()


def _preview(problems: list[Problem]) -> RepairReport:
    torn = [problem for problem in problems if problem.verdict is Verdict.TORN]
    lasting = [problem for problem in problems if problem.verdict is not Verdict.TORN]
    return RepairReport(sum(problem.length for problem in torn), tuple(map(str, lasting)), ())


def _all_problems(disk: Disk, verification: Verification, progress: Progress) -> list[Problem]:
    problems = list(verification.problems)
    outlines: list[Outline] = []
    pieces = [*verification.archived(), *verification.pieces()]
    for count, piece in enumerate(pieces, start=1):
        report = check_segment(disk, piece)
        problems.extend(report.problems)
        outline = None if piece.is_archived else outline_of(report)
        outlines += [] if outline is None else [outline]
        progress(count, len(pieces))
    return problems + neighbour_problems(outlines)


def _save(disk: Disk, paths: LogPaths, problem: Problem) -> str | None:
    """Copies damaged bytes to the quarantine, unless the copy already exists.

    Returns the path of the copy. Returns None if the problem has no range of bytes, or if its bytes
    cannot be read.
    """
    if problem.offset is None or not problem.length:
        return None
    file_name = os.path.basename(problem.path).partition("_")[0]
    target = os.path.join(paths.quarantine, f"aof-{paths.name}-{file_name}-{problem.offset}.bin")
    if not disk.exists(target):
        try:
            with disk.open(problem.path) as source:
                build_atomically(disk, target, lambda file: _copy(source, file, problem))
        except DiskError as error:
            if error.operation != "read":
                raise
            return None  # the bytes cannot be read, so there is nothing to save
    return target


def _copy(source: File, target: File, problem: Problem) -> None:
    start = problem.offset or 0
    end = min(start + problem.length, source.size())
    for position in range(start, end, _COPY_BYTES):
        data = source.pread(position, min(_COPY_BYTES, end - position))
        target.pwrite(position - start, data)
    target.sync()


def _quarantine_names(disk: Disk, root: str, log: str) -> list[str]:
    folder = os.path.join(root, QUARANTINE_NAME)
    names = disk.names(folder) if disk.is_folder(folder) else []
    return [os.path.join(folder, name) for name in names if name.startswith(f"aof-{log}-")]
