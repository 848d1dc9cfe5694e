"""Verifying consumer groups: the checksums of their snapshots and deltas, and their settings.

Nothing is changed and no lock is taken. Beside a writer a group may be folded, or an event be half
written, while it is looked at: what is damaged or torn is looked at again, and told only if it
stays so. How far a delta must be good nobody notes: whatever stands behind its last good event is
told as torn, be it an unfinished write or the end of what was there.

`plan_groups` lists what there is to check, `check_group` checks one group of one partition,
`join_groups` makes one report of all.
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

_LOOKS = 5  # at an end that is torn
_LOOK_AGAIN_NS = 5 * NS_PER_MS
_HASHED = "~"  # begins the files of groups whose names are too long for a file's name


class GroupPiece(NamedTuple):
    """The files of one group of one partition."""

    name: GroupName


class GroupsPlan(NamedTuple):
    """What there is to check, and what was found before anything was read."""

    pieces: tuple[GroupPiece, ...] = ()
    problems: tuple[Problem, ...] = ()


class GroupFinding(NamedTuple):
    """What a report needs of one piece."""

    name: GroupName
    events: int
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


class GroupsReport(NamedTuple):
    """What was found."""

    groups: int = 0
    partitions: int = 0  # of all groups
    events: int = 0  # in their deltas
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()  # oddities that no rule forbids


def plan_groups(disk: Disk, root: PathLike) -> GroupsPlan:
    """All groups there are."""
    why = "nobody can tell which group it is of: the file with its names is missing or damaged"
    return GroupsPlan(
        pieces=tuple(map(GroupPiece, list_groups(disk, root))),
        problems=tuple(
            Problem(path, None, 0, Verdict.CORRUPT, why) for path in unnamed_files(disk, root)
        ),
    )


def unnamed_files(disk: Disk, root: PathLike) -> list[str]:
    """Snapshots and deltas of groups whose names are kept beside them, and cannot be read."""
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return []
    names = disk.names(folder)  # before the groups: these are named first, and forgotten last
    named = [*groups_being_removed(disk, folder, names), *list_groups(disk, root)]
    known = {GroupPaths(root, name).stem for name in named}
    stems = [name.rpartition(".") for name in names if name.startswith(_HASHED)]
    unknown = [
        os.path.join(folder, f"{stem}.{ending}")
        for stem, _, ending in stems
        if ending in ("snap", "delta") and stem not in known
    ]
    return [path for path in unknown if disk.exists(path)]


def check_group(
    disk: Disk, root: PathLike, piece: GroupPiece, *, runner: Runner
) -> GroupFinding | None:
    """None if it was removed since it was listed. `UnknownVersion` if its files are newer."""
    paths = GroupPaths(root, piece.name)
    problems = list(_settings_problems(disk, root, paths))
    events, notes = 0, []
    try:
        found = _lasting(disk, paths, runner)
        events = found.event_count
        problems += _problems(paths, found)
        notes = list(_notes(paths, found))
    except UnknownVersion:
        raise
    except (DataError, NotFound) as error:
        problems.append(_of_error(error, paths.snapshot))
    if not disk.exists(paths.snapshot) and not disk.exists(paths.delta):
        return None
    return GroupFinding(piece.name, events, tuple(problems), tuple(notes))


def join_groups(plan: GroupsPlan, found: Sequence[GroupFinding]) -> GroupsReport:
    """`found` in the order of the pieces, without those that had gone."""
    return GroupsReport(
        groups=len({(one.name.topic, one.name.group) for one in found}),
        partitions=len(found),
        events=sum(one.events for one in found),
        problems=(*plan.problems, *(problem for one in found for problem in one.problems)),
        notes=tuple(note for one in found for note in one.notes),
    )


def _lasting(disk: Disk, paths: GroupPaths, runner: Runner) -> RecoveredGroup:
    """As the files are, but for what is being written."""
    found = load_while_written(disk, paths, GroupConfig(), runner=runner)
    for _ in range(_LOOKS - 1):
        if not found.torn_bytes:
            break
        runner.sleep_ns(_LOOK_AGAIN_NS)
        found = load_while_written(disk, paths, GroupConfig(), runner=runner)
    return found


def _problems(paths: GroupPaths, found: RecoveredGroup) -> Iterator[Problem]:
    for damage in found.damages:
        length = damage.end - damage.start
        yield Problem(paths.delta, damage.start, length, Verdict.CORRUPT, damage.problem)
    if found.torn_bytes:
        is_headless = bool(found.problems) and not found.damages
        start = 0 if is_headless else found.delta_end
        why = "its header is cut short" if is_headless else "an event that is not whole"
        yield Problem(paths.delta, start, found.torn_bytes, Verdict.TORN, why)


def _notes(paths: GroupPaths, found: RecoveredGroup) -> Iterator[str]:
    counts = {"of types that are not known": found.unknown_count, "with flags": found.flagged_count}
    for what, count in counts.items():
        if count:
            yield f"{paths.delta}: events {what}: {count}"


def _settings_problems(disk: Disk, root: PathLike, paths: GroupPaths) -> Iterator[Problem]:
    """They stand beside the files of partition 0."""
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
