"""Verifies the files of consumer groups: their snapshots, deltas and settings.

A delta is the log of the events since the last snapshot. Nothing is changed and no lock is taken.
During the check another process may merge a group's delta into a new snapshot, or may have written
only half of an event. So files that look damaged or torn are read several times, and reported only
if they still look so. No file records how long a delta must be: bytes after its last good event are
reported as torn, whether they are an unfinished write or damage.

`plan_groups` lists the groups to check, `check_group` checks one group in one partition, and
`join_groups` makes one report of all results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lakebed.aof.inspection import Verdict
from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import DataError, NotFound, UnknownVersion
from lakebed.base.files import Disk, PathLike
from lakebed.base.runner import Runner
from lakebed.keratin.paths import TopicPaths
from lakebed.keratin.topic_folder import topic_exists
from lakebed.store.group_settings import GroupSettings
from lakebed.store.topic_groups import load_while_written
from lakebed.store.verification import Problem, problem_of
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.paths import (
    FOLDER_NAME,
    GroupName,
    GroupPaths,
    groups_being_removed,
    list_groups,
)
from lakebed.stroma.recovery import RecoveredGroup

_LOOKS = 5  # how many times a torn delta is read before it is reported
_LOOK_AGAIN_NS = 5 * NS_PER_MS
_HASHED = "~"  # begins the names of the files of groups whose names are too long for a file name


class GroupPiece(NamedTuple):
    """One unit of the check: the files of one group in one partition."""

    name: GroupName


class GroupsPlan(NamedTuple):
    """The groups to check, and the problems found while they were listed."""

    pieces: tuple[GroupPiece, ...] = ()
    problems: tuple[Problem, ...] = ()


class GroupFinding(NamedTuple):
    """The result of checking one `GroupPiece`."""

    name: GroupName
    events: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class GroupsReport(NamedTuple):
    """The result of checking all groups."""

    groups: int = 0
    partitions: int = 0  # summed over the groups
    events: int = 0  # in the deltas
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()  # unusual, but not wrong


def plan_groups(disk: Disk, root: PathLike) -> GroupsPlan:
    """Lists the groups of a root, without those that are being deleted."""
    why = "the group of this file is unknown: the file with the group's names is missing or damaged"
    return GroupsPlan(
        pieces=tuple(map(GroupPiece, list_groups(disk, root))),
        problems=tuple(
            Problem(path, None, 0, Verdict.CORRUPT, why) for path in unnamed_files(disk, root)
        ),
    )


def unnamed_files(disk: Disk, root: PathLike) -> list[str]:
    """Returns the paths of snapshots and deltas whose group is unknown.

    The files of a group with a long name are named by a hash, and a separate file has the group's
    name. If that file is missing or damaged, the group of the other files is unknown.
    """
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return []
    # Listed before the groups: a name file is created before the group's files, and removed after.
    names = disk.names(folder)
    named = [*groups_being_removed(disk, folder, names), *list_groups(disk, root)]
    known_stems = {GroupPaths(root, name).stem for name in named}
    stems = [name.rpartition(".") for name in names if name.startswith(_HASHED)]
    unnamed = [
        os.path.join(folder, f"{stem}.{ending}")
        for stem, _, ending in stems
        if ending in ("snap", "delta") and stem not in known_stems
    ]
    return [path for path in unnamed if disk.exists(path)]


def check_group(
    disk: Disk, root: PathLike, piece: GroupPiece, *, runner: Runner
) -> GroupFinding | None:
    """Checks one group in one partition; returns None if it was removed since it was listed.

    Raises `UnknownVersion` if a newer version of Lakebed wrote its files.
    """
    paths = GroupPaths(root, piece.name)
    problems = list(_settings_problems(disk, root, paths))
    events, notes = 0, []
    try:
        recovered = _lasting(disk, paths, runner)
        if recovered.is_delta_missing and not still_exists(disk, root, piece.name):
            return None
        events = recovered.event_count
        problems += _problems(paths, recovered)
        notes = list(_notes(paths, recovered))
    except UnknownVersion:
        raise
    except (DataError, NotFound) as error:
        problems.append(_of_error(error, paths.snapshot))
    if not disk.exists(paths.snapshot) and not disk.exists(paths.delta):
        return None
    return GroupFinding(piece.name, events, tuple(problems), tuple(notes))


def still_exists(disk: Disk, root: PathLike, name: GroupName) -> bool:
    """Whether a group and its topic exist and the group is not being deleted.

    A deletion removes the files of a group one after another, so that some are missing for a while.
    """
    topic = TopicPaths(os.fspath(root), name.topic)
    return topic_exists(disk, topic) and name in list_groups(disk, root)


def join_groups(plan: GroupsPlan, findings: Sequence[GroupFinding]) -> GroupsReport:
    """Combines the findings into one report.

    `findings` must be in the order of the plan. A group that was removed since the plan was made
    has no finding.
    """
    return GroupsReport(
        groups=len({(finding.name.topic, finding.name.group) for finding in findings}),
        partitions=len(findings),
        events=sum(finding.events for finding in findings),
        problems=(
            *plan.problems,
            *(problem for finding in findings for problem in finding.problems),
        ),
        notes=tuple(note for finding in findings for note in finding.notes),
    )


def _lasting(disk: Disk, paths: GroupPaths, runner: Runner) -> RecoveredGroup:
    """Loads a group; retries if its delta looks torn, because a write may be in progress."""
    recovered = load_while_written(disk, paths, GroupConfig(), runner=runner)
    for _ in range(_LOOKS - 1):
        if not recovered.torn_bytes:
            break
        runner.sleep_ns(_LOOK_AGAIN_NS)
        recovered = load_while_written(disk, paths, GroupConfig(), runner=runner)
    return recovered


def _problems(paths: GroupPaths, recovered: RecoveredGroup) -> Iterator[Problem]:
    if recovered.is_delta_missing:
        yield Problem(paths.delta, None, 0, Verdict.CORRUPT, "the file is missing")
    for damage in recovered.damages:
        length = damage.end - damage.start
        yield Problem(paths.delta, damage.start, length, Verdict.CORRUPT, damage.problem)
    if recovered.torn_bytes:
        is_headless = bool(recovered.problems) and not recovered.damages
        start = 0 if is_headless else recovered.delta_end
        why = "the header is incomplete" if is_headless else "an incomplete event"
        yield Problem(paths.delta, start, recovered.torn_bytes, Verdict.TORN, why)


def _notes(paths: GroupPaths, recovered: RecoveredGroup) -> Iterator[str]:
    counts = {
        "of unknown types": recovered.unknown_count,
        "with flags": recovered.flagged_count,
    }
    for what, count in counts.items():
        if count:
            yield f"{paths.delta}: events {what}: {count}"


def _settings_problems(disk: Disk, root: PathLike, paths: GroupPaths) -> Iterator[Problem]:
    """Yields a problem if the group's settings are damaged.

    The settings are a file of partition 0; for other partitions there is nothing to check.
    """
    topic, partition, group = paths.name
    if partition:
        return
    try:
        GroupSettings(disk, root, defaults=GroupConfig()).config(topic, group)
    except UnknownVersion:
        raise
    except DataError as error:
        yield _of_error(error, paths.settings)


def _of_error(error: DataError | NotFound, path: str) -> Problem:
    if not isinstance(error, DataError):
        return Problem(path, None, 0, Verdict.CORRUPT, str(error))
    return problem_of(error, path)
