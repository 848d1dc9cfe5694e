"""Compares the store with the model: after each opening, in quiet time, and at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lakebed.base.errors import LakebedError
from lakebed.base.simulation.disk import Crash
from lakebed.simulator.context import Answer, Context
from lakebed.simulator.operations import logs
from lakebed.simulator.violation import Promise, Violation, require

QUIET_MS = 600_000


def check_opened(context: Context) -> None:
    """Everything that was acknowledged is there, and nothing else."""
    looks = [partial(logs.read_log, context, name) for name in sorted(context.model.logs)]
    words = [_looked(context, look) for look in looks]
    check_tasks(context)
    if words:
        context.story("checked: " + "; ".join(words))


def _looked(context: Context, look: Callable[[], Answer]) -> str:
    try:
        return look().words
    except LakebedError as error:
        return context.refused(error, "a look", is_damaged=context.is_any_damaged).words


def check_tasks(context: Context) -> None:
    """No background task ended with an error."""
    for error in context.machine.world.runner.failures():
        raise Violation(Promise.TASKS, f"a background task ended: {type(error).__name__}: {error}")


def check_quiet(context: Context) -> None:
    """After a while without calls all background work is done, and nothing spins."""
    machine = context.machine
    machine.elapse(QUIET_MS)
    before = machine.world.runner.switch_count
    machine.elapse(QUIET_MS)
    switches = machine.world.runner.switch_count - before
    what = f"threads ran {switches} times in ten minutes in which nobody called"
    require(switches < 20_000, Promise.QUIET, what)
    check_tasks(context)
    context.story(f"quiet time: threads ran {switches} times")


def check_end(context: Context) -> None:
    """Nothing is under way: what was promised can be counted."""
    check_opened(context)


def close_store(context: Context) -> None:
    """In order. Everything that was appended is durable, unless closing fails."""
    appended = {name: len(log.records) for name, log in context.model.logs.items()}
    opened = {key[1] for key in context.handles if key[0] == "log"}
    store = context.store
    context.machine.store = None
    try:
        for _, follower, _ in context.followers.values():
            follower.close()
        store.close()
    except LakebedError as error:
        context.story(f"closing failed: {type(error).__name__}")
        if not context.is_troubled:
            raise Violation(Promise.ERRORS, f"closing the store failed: {error}") from error
        store.close()
        return
    for name in opened:
        log = context.model.logs[name]
        if not context.is_troubled:
            log.durable_count = max(log.durable_count, appended[name])
    check_descriptors(context)


def check_descriptors(context: Context) -> None:
    """A store that is closed holds no file open."""
    opened = context.machine.world.disk.open_paths
    left = sorted(path for path, count in opened.items() if count > 0 and "/meta.db" not in path)
    if not context.is_troubled:
        what = f"the store is closed, and these files are open: {', '.join(left[:5])}"
        require(not left, Promise.BOUNDED, what)
    context.machine.world.disk.open_paths.clear()


def note_crash(context: Context, crash: Crash) -> None:
    """What was under way is in doubt, and what was only written, after a power cut."""
    for log in context.model.logs.values():
        log.in_flight = 0


def may_not_open(context: Context) -> bool:
    """Whether a fault that is still there explains it."""
    return context.is_troubled
