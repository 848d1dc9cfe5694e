"""Opening a group: read its files, make them fit, compare them with the log, go on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from random import Random

from lakebed.base.counters import Counters
from lakebed.base.damage_ledger import GROUPS, DamageLedger, Loss
from lakebed.base.events import event
from lakebed.base.files import Disk, PathLike, remove_temporaries
from lakebed.base.runner import Runner
from lakebed.stroma.clock import GroupClock
from lakebed.stroma.config import GroupConfig
from lakebed.stroma.format import U64_MAX
from lakebed.stroma.group import PartitionGroup
from lakebed.stroma.journal import Journal
from lakebed.stroma.paths import FOLDER_NAME, GroupName, GroupPaths
from lakebed.stroma.recovery import RecoveredGroup, load, repair, saved_path
from lakebed.stroma.removal import finish_removals
from lakebed.stroma.source import Source

_log = logging.getLogger(__name__)


def open_group(
    disk: Disk,
    root: PathLike,
    name: GroupName,
    *,
    source: Source,
    runner: Runner,
    config: GroupConfig | None = None,
    wake: Callable[[], None] = lambda: None,
    counters: Counters | None = None,
    random: Random | None = None,
    damage: DamageLedger | None = None,
) -> PartitionGroup:
    """The group, made anew if it has no files. Once at a time: the caller holds the root's lock.

    What is lost goes on record in `damage` before it is repaired. `DataError` if its files are
    damaged so that its acks cannot be known (`recovery`).
    """
    config = config or GroupConfig()
    paths = GroupPaths(root, name)
    clock = GroupClock(runner.clock)
    now_ms = clock.now_ms()
    recovered = load(disk, paths, config, now_ms=now_ms)
    if not recovered.incarnation:  # a new group, or one older than incarnations
        recovered.incarnation = (random or Random()).randint(1, U64_MAX)
    if damage is not None:
        damage.record(*_losses(paths, recovered))
    _compare(recovered, source)
    delta = repair(disk, paths, recovered, now_ms=now_ms)
    journal = Journal(
        disk,
        paths,
        delta,
        generation=max(recovered.generation, recovered.marked_generation),
        incarnation=recovered.incarnation,
        snapshot_bytes=recovered.snapshot_bytes,
        event_count=recovered.event_count,
        config=config,
        runner=runner,
        counters=counters or Counters(),
    )
    for problem in recovered.problems:
        event(_log, "group_problem", level=logging.ERROR, group=name, problem=problem)
    return PartitionGroup(
        paths, recovered, journal, source=source, runner=runner, clock=clock, wake=wake
    )


def _losses(paths: GroupPaths, recovered: RecoveredGroup) -> Iterator[Loss]:
    topic, partition, group = paths.name
    for problem in recovered.problems:
        yield Loss(
            engine=GROUPS,
            name=damage_name(topic, group),
            partition=partition,
            path=paths.delta,
            problem=f"{problem.removeprefix(paths.delta + ': ')}: acks may be lost, and their "
            "messages are delivered again",
            saved=(saved_path(paths, paths.delta, recovered.delta or b""),),
        )


def damage_name(topic: str, group: str) -> str:
    """What a group is called in the record of damage."""
    return f"{topic}/{group}"


def clean_folder(disk: Disk, root: PathLike) -> list[str]:
    """Remove what crashes left behind, while no group is open; the names removed."""
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return []
    finish_removals(disk, root)
    return remove_temporaries(disk, folder)


def _compare(recovered: RecoveredGroup, source: Source) -> None:
    """With the log: it may have lost messages that the group knows of, or be another one."""
    state = recovered.state
    high_watermark = source.high_watermark()
    if state.end > high_watermark:
        recovered.problems.append(
            f"messages {high_watermark} to {state.end - 1} are known, and not in the log: "
            "forgotten, for new ones will have their numbers"
        )
        state.cut(high_watermark)
        recovered.must_fold = True  # before new messages get these numbers
