"""Opens a group: reads and repairs its files, and compares them with the log."""

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
    """Opens the group, or creates it if it has no files.

    The caller must hold the root's lock, and must not open the group twice. `wake` must schedule a
    call of the group's `step`. Losses are recorded in `damage` before the repair. Raises
    `DataError` if the files are so damaged that it is unknown which messages were acked (see
    `recovery`).
    """
    config = config or GroupConfig()
    paths = GroupPaths(root, name)
    clock = GroupClock(runner.clock)
    now_ms = clock.now_ms()
    recovered = load(disk, paths, config, now_ms=now_ms)
    if not recovered.incarnation:  # a new group, or one created by an older release
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
    is_saved = recovered.must_save
    saved = (saved_path(paths, paths.delta, recovered.delta or b""),) if is_saved else ()
    for problem in recovered.problems:
        yield Loss(
            engine=GROUPS,
            name=damage_name(topic, group),
            partition=partition,
            path=paths.delta,
            problem=f"{problem.removeprefix(paths.delta + ': ')}: acks may be lost, so messages "
            "may be delivered again",
            saved=saved,
        )


def damage_name(topic: str, group: str) -> str:
    """Returns the name under which the damage ledger lists a group."""
    return f"{topic}/{group}"


def clean_folder(disk: Disk, root: PathLike) -> list[str]:
    """Finishes interrupted removals of groups, and removes temporary files that a crash left.

    Returns the names of the removed temporary files. No group may be open.
    """
    folder = os.path.join(os.fspath(root), FOLDER_NAME)
    if not disk.is_folder(folder):
        return []
    finish_removals(disk, root)
    return remove_temporaries(disk, folder)


def _compare(recovered: RecoveredGroup, source: Source) -> None:
    """Makes the state forget messages that the log has lost, and notes this as a problem."""
    state = recovered.state
    high_watermark = source.high_watermark()
    if state.end > high_watermark:
        recovered.problems.append(
            f"messages {high_watermark} to {state.end - 1} are not in the log any more; the group "
            "forgets them, because new messages will get their offsets"
        )
        state.cut(high_watermark)
        recovered.must_fold = True  # before new messages get these offsets
