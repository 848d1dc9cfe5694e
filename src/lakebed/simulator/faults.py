"""The faults by name: crashes, disk faults and the step that ends them, clock steps, and damage.

Two entries are not faults: the passing of time, and closing and reopening the store.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.faults import AfterFailedSync
from lakebed.simulator.context import Answer, Context, Outcome
from lakebed.simulator.damages import draw_damage, draw_vanishing, plant, vanish
from lakebed.simulator.machine import ROOT
from lakebed.simulator.operations import groups, topics
from lakebed.simulator.plan import Step
from lakebed.simulator.settings import draw_settings

FAILING = (
    "pwrite",
    "fdatasync",
    "fsync",
    "rename",
    "create",
    "unlink",
    "truncate",
    "pread",
    "pread",
    "pread",
    "open",
)
CRASHED_AFTER = ("rename", "create", "unlink", "fsync")
SLOW = ("fdatasync", "pwrite", "fsync", "pread", "rename")
HOUR_NS = 3600 * NS_PER_S
RECOVERY_MS = 130_000  # long enough to retry all work that a full disk delayed


class StoreGone(BaseException):
    """Asks the run to crash the machine now and to open the store again."""

    def __init__(self, crash: Crash, survivors: int) -> None:
        super().__init__(f"{crash.value} {survivors}")
        self.crash = crash
        self.survivors = survivors


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault: how to draw its arguments, and how to cause it."""

    name: str
    weight: float
    draw: Callable[[Random], dict[str, Any]]
    run: Callable[[Context, Step], Answer]


def _draw_nothing(_random: Random) -> dict[str, Any]:
    return {}


def _draw_crash(random: Random) -> dict[str, Any]:
    return {
        "survivors": random.choice([0, 0, 1, 2, 3, 4, 5]),
        "after": random.choice(
            [None, 0, 1, 2, 3, 5, 8, 13, 30, 80]
        ),  # number of writes and other changes of the disk until the crash; None: crash now
        "operation": random.choice([None, None, *CRASHED_AFTER]),  # if set, count from the next one
    }


def _crash(crash: Crash) -> Callable[[Context, Step], Answer]:
    def run(context: Context, step: Step) -> Answer:
        survivors, after = step.arguments["survivors"], step.arguments["after"]
        if after is None:
            raise StoreGone(crash, survivors)
        disk, operation = context.machine.world.disk, step.arguments.get("operation")
        context.parts["crash"] = (crash, survivors)
        if operation is None:
            disk.faults.crash_at_step = disk.steps + after
            return Answer(Outcome.OK, f"{_WORDS[crash]} after {after} more disk writes")
        disk.faults.crash_after = (operation, after)
        return Answer(Outcome.OK, f"{_WORDS[crash]} {after} disk writes after the next {operation}")

    return run


_WORDS = {Crash.KILL: "kill the process", Crash.POWER: "cut the power"}


def _draw_failure(random: Random) -> dict[str, Any]:
    return {
        "operation": random.choice(FAILING),
        "nth": random.choice([1, 1, 2, 3, 5, 9]),
        "reverts": random.random() < 0.5,
        "burst": random.choice([1, 1, 4]),
    }


def _fail(context: Context, step: Step) -> Answer:
    operation, nth = step.arguments["operation"], step.arguments["nth"]
    after = AfterFailedSync.REVERTED if step.arguments["reverts"] else AfterFailedSync.KEPT
    burst = step.arguments.get("burst", 1)
    for each in range(nth, nth + burst):
        context.machine.world.disk.faults.fail(operation, nth=each, after=after)
    _trouble(context, "disk.fail")
    calls = f"number {nth}" if burst == 1 else f"{burst} calls from number {nth} on,"
    return Answer(Outcome.OK, f"make {operation} call {calls} from now fail")


def _draw_slow(random: Random) -> dict[str, Any]:
    return {"operation": random.choice(SLOW), "ms": random.choice([1, 20, 700])}


def _slow(context: Context, step: Step) -> Answer:
    operation, duration_ms = step.arguments["operation"], step.arguments["ms"]
    context.machine.world.disk.faults.slow_ns[operation] = duration_ms * NS_PER_MS
    context.active_faults.add("disk.slow")
    return Answer(Outcome.OK, f"make every {operation} take {duration_ms} ms")


def _draw_full(random: Random) -> dict[str, Any]:
    return {"free": random.choice([0, 0, 4096, 40_000])}


def _full(context: Context, step: Step) -> Answer:
    disk = context.machine.world.disk
    disk.capacity_bytes = disk.used_bytes() + step.arguments["free"]
    _trouble(context, "disk.full", passes=True)
    return Answer(Outcome.OK, f"fill the disk up to {step.arguments['free']} free bytes")


def _no_descriptors(context: Context, _step: Step) -> Answer:
    lasting = context.machine.world.disk.faults.lasting
    for operation in ("open", "create", "list"):
        lasting[operation] = errno.EMFILE
    _trouble(context, "disk.no_descriptors", passes=True)
    return Answer(Outcome.OK, "use up all file descriptors")


def _read_only(context: Context, _step: Step) -> Answer:
    context.machine.world.disk.faults.read_only = True
    _trouble(context, "disk.read_only")
    return Answer(Outcome.OK, "make the file system read-only")


def _draw_unreadable(random: Random) -> dict[str, Any]:
    return {"folder": random.choice(["topics", "topics", "aof", "objects"])}


def _unreadable(context: Context, step: Step) -> Answer:
    """Makes every read of the files that an engine has now fail with EIO."""
    folder = f"{ROOT}/{step.arguments['folder']}/"
    disk = context.machine.world.disk
    disk.faults.unreadable.update(path for path in disk.file_paths() if path.startswith(folder))
    _trouble(context, "disk.unreadable", passes=True)
    return Answer(Outcome.OK, f"make all files of {step.arguments['folder']} unreadable")


def _short_writes(context: Context, _step: Step) -> Answer:
    context.machine.world.disk.faults.short_writes = True
    context.active_faults.add("disk.short_writes")
    return Answer(Outcome.OK, "make writes stop short")


def _heal(context: Context, _step: Step) -> Answer:
    faults = context.machine.world.disk.faults
    armed = (faults.crash_at_step, faults.crash_after)
    context.machine.heal()
    faults = context.machine.world.disk.faults
    faults.crash_at_step, faults.crash_after = armed
    context.active_faults.clear()
    if not context.is_poisoned and context.is_troubled:
        context.machine.elapse(RECOVERY_MS)
        context.is_troubled = False
    return Answer(Outcome.OK, "end all disk faults")


def _trouble(context: Context, name: str, *, passes: bool = False) -> None:
    """Records that the disk has a fault, which may make calls fail.

    With `passes`, the store works again when the fault ends; otherwise it must be reopened first.
    """
    context.is_poisoned = context.is_poisoned or not passes
    context.is_troubled = context.has_ever_troubled = True
    context.active_faults.add(name)


def _draw_step(random: Random) -> dict[str, Any]:
    return {"minutes": random.choice([-4000, -90, -2, 2, 90, 4000])}


def _step_clock(context: Context, step: Step) -> Answer:
    minutes = step.arguments["minutes"]
    _set_clock(context, minutes * 60 * NS_PER_S)
    return Answer(Outcome.OK, f"step the wall clock by {minutes:+} minutes")


def _set_clock(context: Context, difference_ns: int) -> None:
    context.machine.run("clock", lambda: groups.note_opened_parts(context))
    context.machine.set_clock(difference_ns)
    groups.doubt_times(context)
    topics.doubt_producers(context)


def _draw_suspend(random: Random) -> dict[str, Any]:
    return {"hours": random.choice([1, 9, 80])}


def _suspend(context: Context, step: Step) -> Answer:
    hours = step.arguments["hours"]
    _set_clock(context, hours * HOUR_NS)
    return Answer(Outcome.OK, f"suspend the machine for {hours} hours")


def _draw_time(random: Random) -> dict[str, Any]:
    return {"ms": random.choice([1, 30, 400, 400, 6_000, 70_000])}


def _pass_time(context: Context, step: Step) -> Answer:
    context.machine.elapse(step.arguments["ms"])
    return Answer(Outcome.OK, f"let {step.arguments['ms']} ms pass")


def _draw_reopen(random: Random) -> dict[str, Any]:
    settings = draw_settings(random) if random.random() < 0.5 else None
    return {"settings": settings}


class Reopen(BaseException):
    """Asks the run to close the store cleanly and open it again, with new settings if given."""

    def __init__(self, settings: dict[str, Any] | None) -> None:
        super().__init__("reopen")
        self.settings = settings


def _reopen(_context: Context, step: Step) -> Answer:
    raise Reopen(step.arguments["settings"])


def _plant(context: Context, step: Step) -> Answer:
    return context.machine.run("damage", lambda: plant(context, step))


FAULTS: Final[dict[str, FaultKind]] = {
    kind.name: kind
    for kind in (
        FaultKind("crash.kill", 1.5, _draw_crash, _crash(Crash.KILL)),
        FaultKind("crash.power", 3, _draw_crash, _crash(Crash.POWER)),
        FaultKind("disk.fail", 2, _draw_failure, _fail),
        FaultKind("disk.slow", 1, _draw_slow, _slow),
        FaultKind("disk.full", 0.7, _draw_full, _full),
        FaultKind("disk.no_descriptors", 0.5, _draw_nothing, _no_descriptors),
        FaultKind("disk.read_only", 0.2, _draw_nothing, _read_only),
        FaultKind("disk.unreadable", 0.9, _draw_unreadable, _unreadable),
        FaultKind("disk.short_writes", 0.5, _draw_nothing, _short_writes),
        FaultKind("disk.heal", 4, _draw_nothing, _heal),
        FaultKind("damage.plant", 0.4, draw_damage, _plant),
        FaultKind("file.vanishes", 0.2, draw_vanishing, vanish),
        FaultKind("clock.step", 1, _draw_step, _step_clock),
        FaultKind("clock.suspend", 0.5, _draw_suspend, _suspend),
        FaultKind("time.pass", 8, _draw_time, _pass_time),
        FaultKind("store.reopen", 2, _draw_reopen, _reopen),
    )
}
