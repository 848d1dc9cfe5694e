"""Compares the store with the model: each time it is opened, after quiet time, and at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial

from lakebed.aof.log import Aof
from lakebed.base.clock import NS_PER_MS, NS_PER_S
from lakebed.base.errors import LakebedError, NotFound
from lakebed.base.files.protocol import TEMPORARY_SUFFIX
from lakebed.base.simulation.disk import Crash
from lakebed.simulator.context import Answer, Context, Outcome
from lakebed.simulator.model.topics import UNSYNCED_NS
from lakebed.simulator.operations import groups, logs, objects, tiers, topics, upkeep
from lakebed.simulator.violation import Promise, Violation, require
from lakebed.store.lake_object_store import BUCKET as TIER2_BUCKET

QUIET_MS = 600_000
RELEASED_NS = 60 * NS_PER_S
DRAIN_ROUNDS = 300
PINS_MAX = 100
DRAIN_PAUSE_NS = 60 * NS_PER_S


def check_opened(context: Context) -> None:
    """Checks that a newly opened store has all acknowledged data, and nothing that was refused."""
    looks = [partial(logs.read_log, context, name) for name in sorted(context.model.logs)]
    looks += [partial(_names, context)]
    looks += [partial(topics.read_topic, context, name) for name in topics.NAMES]
    looks += [partial(_open_groups, context), partial(_buckets, context)]
    words = [_looked(context, look) for look in looks]
    check_tasks(context)
    if words:
        context.story("check the store: " + "; ".join(words))


def _names(context: Context) -> Answer:
    topics.check_names(context)
    return Answer(Outcome.OK, "list topics")


def _buckets(context: Context) -> Answer:
    objects.check_buckets(context)
    return Answer(Outcome.OK, f"list {len(context.model.buckets)} buckets")


def _open_groups(context: Context) -> Answer:
    """Opens every group in the model whose topic exists, and checks that the group still exists and
    has its dead letters.
    """
    for key, model in sorted(context.model.groups.items()):
        if model.maybe_deleted and key[0] in context.model.topics:
            topic, _ = topics.open_topic(context, key[0])
            if key[1] not in topic.groups():
                groups.forget(context, key)
                continue
        if key[0] not in context.model.topics:
            continue
        topic, topic_model = topics.open_topic(context, key[0])
        is_there = key[1] in topic.groups() or model.is_damaged
        require(is_there, Promise.KEPT, f"group {key[1]} of topic {key[0]} is missing")
        group, model, topic_model = groups.open_named(context, *key)
        groups.look_at_letters(context, group, model, topic_model, key[0])
    return Answer(Outcome.OK, f"open {len(context.model.groups)} groups")


def _looked(context: Context, look: Callable[[], Answer]) -> str:
    try:
        return look().words
    except LakebedError as error:
        return context.refused(error, "check the store", is_damaged=context.is_any_damaged).words


def note_opening(context: Context) -> None:
    """Records, before the store is opened, that no call on a group is in progress."""
    for group in context.model.groups.values():
        for part in group.partitions:
            part.in_flight = 0


def check_tasks(context: Context) -> None:
    """Raises a `Violation` if a background task has ended with an error."""
    for error in context.machine.world.runner.failures():
        raise Violation(Promise.TASKS, f"a background task failed: {type(error).__name__}: {error}")


def pin_oldest(context: Context) -> list[str]:
    """Pins the oldest segment of each log for longer than the quiet time; returns the pin ids."""
    pin_ids = []
    for name in sorted(context.model.logs):
        with contextlib.suppress(LakebedError):
            log, _ = logs.open_log(context, name)
            oldest = log.segments()[0].segment_id if log.segments() else 0
            pin = context.store.pins.pin(
                name,
                segment_start=oldest,
                segment_end=oldest + 1,
                duration_ms=4 * QUIET_MS,
                owner="simulator",
            )
            pin_ids.append(pin.pin_id)
    return pin_ids


def release(context: Context, pin_ids: list[str]) -> None:
    """Releases pins, and waits until retention has run again."""
    for pin_id in pin_ids:
        context.store.pins.release(pin_id)
    context.machine.world.runner.sleep_ns(RELEASED_NS)


def check_quiet(context: Context) -> None:
    """Lets time pass without any calls, and checks that background threads become idle."""
    machine = context.machine
    machine.elapse(QUIET_MS)
    before = machine.world.runner.switch_count
    machine.elapse(QUIET_MS)
    switches = machine.world.runner.switch_count - before
    what = f"threads were scheduled {switches} times in ten minutes without calls"
    require(switches < 20_000, Promise.QUIET, what)
    check_tasks(context)
    context.story(f"ten minutes without calls: threads were scheduled {switches} times")


def check_rest(context: Context) -> None:
    """Checks background failures, Tier 2, archives, leftover files and damage reports. Called after
    quiet time.
    """
    store = context.store
    if not context.is_any_damaged and context.machine.settings["manifest"]:
        failures = [f"{failed.kind} {failed.name}: {failed.error}" for failed in store.failures()]
        require(
            not failures,
            Promise.TASKS,
            f"background work fails although there is no fault: {failures[:2]}",
        )
    _check_tier2(context)
    for name in sorted(context.model.logs):
        _looked(context, partial(tiers.read_archive, context, name))
    _check_leftovers(context)
    upkeep.check_verification(context)
    _check_damage(context)


def _check_producers(context: Context) -> None:
    """Checks, after quiet time, that topics have forgotten producers idle for `producer_ms`.

    Leaves out topics whose `producer_ms` is longer than the quiet time, and damaged topics.
    """
    for name in sorted(context.model.topics):
        topic, model = topics.open_topic(context, name)
        if topic.config.producer_ms > QUIET_MS or model.is_damaged:
            continue
        for partition in topic.opened_partitions():
            count = partition.producer_count
            what = f"{partition.name}: {count} producers are still remembered after `producer_ms`"
            require(not count, Promise.BOUNDED, what)


def _check_tier2(context: Context) -> None:
    """Checks that Tier 2 has no objects of segments that were removed from their log.

    Checks nothing if data was damaged or the manifest log is off.
    """
    if context.is_any_damaged or not context.machine.settings["manifest"]:
        return
    try:
        keys = [row.key for row in context.open_bucket(TIER2_BUCKET).list()]
    except NotFound:
        return
    for name in sorted(context.model.logs):
        log, _ = logs.open_log(context, name)
        kept = {place.key for place in log.tiers.residency() if 2 in place.tiers}
        stream = f"/{log.stream_id:016x}/segment-"
        left = [key for key in keys if stream in key and key not in kept]
        what = f"log {name}: Tier 2 still has {len(left)} objects of removed segments"
        require(not left, Promise.QUIET, what)


def _check_leftovers(context: Context) -> None:
    """Checks that at most `PINS_MAX` pin files are left, and, if the disk never had a fault and
    nothing was damaged, no temporary files.
    """
    paths = context.machine.world.disk.file_paths()
    left = [path for path in paths if path.endswith(TEMPORARY_SUFFIX)]
    may = context.has_ever_troubled or context.is_any_damaged
    require(not left or may, Promise.BOUNDED, f"temporary files are left: {left[:2]}")
    pins = [path for path in paths if "/pins/" in path]
    require(
        len(pins) <= PINS_MAX,
        Promise.BOUNDED,
        f"{len(pins)} pin files are left, more than {PINS_MAX}",
    )


def _check_damage(context: Context) -> None:
    """Checks that verification still reports every damaged topic, unless a loss was acknowledged in
    this run.
    """
    damaged = {
        model.name
        for model in context.model.topics.values()
        for part in model.partitions
        if part.is_damaged and not part.maybe_truncated_before and model.is_kept_whole
    }
    if not damaged or context.parts.get("acknowledged"):
        return
    _, found = upkeep.verify(context)
    for name in sorted(damaged):
        is_told = any(name in line for line in found)
        what = f"topic {name} is damaged, but verification no longer reports it"
        require(is_told, Promise.DAMAGE_ON_RECORD, what)


def check_end(context: Context) -> None:
    """Checks the whole store at the end of a run, and drains every group to count its messages."""
    check_opened(context)
    for key in sorted(context.model.groups):
        drain(context, *key)
    context.machine.world.runner.sleep_ns(QUIET_MS * NS_PER_MS)
    _check_producers(context)


def drain(context: Context, topic_name: str, name: str) -> None:
    """Leases and acks all remaining messages of a group. Then checks that every message of the
    topic is settled or a dead letter.

    Does nothing if the group or its topic is damaged.
    """
    if context.model.groups[topic_name, name].is_damaged:
        return
    group, model, topic_model = groups.open_named(context, topic_name, name)
    if model.is_damaged or any(part.is_damaged for part in topic_model.partitions):
        return
    where = f"group {name} of topic {topic_name}"
    for _ in range(DRAIN_ROUNDS):
        leased = groups.lease_all(context, group, model, topic_model)
        group.ack_all(leased)
        for message in leased:
            part = model.partitions[message.partition]
            part.acked([part.leases[message.offset]], context.machine.now_ns)
        if not leased:
            if not sum(group.lag().values()):
                break
            context.machine.world.runner.sleep_ns(DRAIN_PAUSE_NS)
    lag = group.lag()
    require(
        not sum(lag.values()),
        Promise.ACCOUNTED,
        f"{where}: every message was acked, but the lag is {lag}",
    )
    topics.read_topic(context, topic_name)
    groups.look_at_letters(context, group, model, topic_model, topic_name)
    for number, part in enumerate(model.partitions):
        known = topic_model.partitions[number]
        for offset, stored in sorted(known.messages.items()):
            is_settled = offset in part.settled or offset in part.maybe_settled
            is_letter = (number, offset) in model.letters or offset in part.buried
            if context.machine.has_retained_topics:  # retention also removes dead letters
                is_letter = is_letter or part.may_be_buried(offset)
            what = (
                f"{part.name}: offset {offset} ({str(stored.value)[:20]}) was never settled, is "
                "not delivered, and is not a dead letter"
            )
            require(is_settled or is_letter, Promise.ACCOUNTED, what)


def note_closed(context: Context) -> None:
    """Records in the model that closing the store synced all data.

    If the disk had a fault, records a crash of the process instead.
    """
    if context.is_troubled:
        note_crash(context, Crash.KILL)
        return
    for topic in context.model.topics.values():
        for partition in topic.partitions:
            partition.in_flight = 0
            partition.closed()
    for group in context.model.groups.values():
        for part in group.partitions:
            part.in_flight = 0
            part.settled_ns.clear()
    context.parts.pop("appends", None)


def close_store(context: Context) -> None:
    """Closes the store cleanly, and records in the model that all records of open logs are durable,
    unless the disk had a fault.

    Raises a `Violation` if closing fails although the disk had no fault.
    """
    topics.settle_appends(context)
    appended = {name: len(log.records) for name, log in context.model.logs.items()}
    opened = [
        key[1] for key, log in context.handles.items() if isinstance(log, Aof) and not log.is_closed
    ]
    store = context.store
    context.machine.store = None
    try:
        for _, follower, _ in context.followers.values():
            follower.close()
        store.close()
    except LakebedError as error:
        context.story(f"close the store: {type(error).__name__}")
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
    """Checks that the closed store has left no files open, except those of the metadata database.

    Checks nothing if the disk had a fault.
    """
    opened = context.machine.world.disk.open_paths
    left = sorted(path for path, count in opened.items() if count > 0 and "/meta.db" not in path)
    if not context.is_troubled:
        what = f"the store is closed, but these files are open: {', '.join(left[:5])}"
        require(not left, Promise.BOUNDED, what)
    context.machine.world.disk.open_paths.clear()


def note_crash(context: Context, crash: Crash) -> None:
    """Records a crash in the model: no call is in progress any more.

    After a power cut, or if the disk had a fault, unsynced changes are in doubt.
    """
    context.parts.pop("busy", None)
    # A power cut may keep any part of the unsynced bytes: bytes after a gap look like damage.
    context.may_have_gaps = context.may_have_gaps or crash is Crash.POWER
    now_ns = context.machine.now_ns
    is_lost = crash is Crash.POWER or context.is_troubled
    is_slow = bool(context.machine.world.disk.faults.slow_ns)
    limit_ns = 1 << 62 if context.is_troubled or is_slow else UNSYNCED_NS
    for log in context.model.logs.values():
        log.in_flight = 0
    for topic in context.model.topics.values():
        for partition in topic.partitions:
            partition.in_flight = 0
            if is_lost:
                partition.lost_power(now_ns, limit_ns)
    for group in context.model.groups.values():
        for part in group.partitions:
            part.in_flight = 0
            if is_lost and not group.syncs:
                part.lost_power(now_ns, limit_ns)
            elif not group.syncs:
                part.killed(now_ns, limit_ns)
    context.parts.pop("appends", None)


def may_not_open(context: Context) -> bool:
    """Returns whether a disk fault explains that the store does not open."""
    return context.is_troubled
