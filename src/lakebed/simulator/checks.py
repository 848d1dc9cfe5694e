"""Compares the store with the model: after each opening, in quiet time, and at the end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
DRAIN_ROUNDS = 300
PINS_MAX = 100
DRAIN_PAUSE_NS = 60 * NS_PER_S


def check_opened(context: Context) -> None:
    """Everything that was acknowledged is there, and nothing else."""
    looks = [partial(logs.read_log, context, name) for name in sorted(context.model.logs)]
    looks += [partial(_names, context)]
    looks += [partial(topics.read_topic, context, name) for name in topics.NAMES]
    looks += [partial(_open_groups, context), partial(_buckets, context)]
    words = [_looked(context, look) for look in looks]
    check_tasks(context)
    if words:
        context.story("checked: " + "; ".join(words))


def _names(context: Context) -> Answer:
    topics.check_names(context)
    return Answer(Outcome.OK, "names")


def _buckets(context: Context) -> Answer:
    objects.check_buckets(context)
    return Answer(Outcome.OK, f"{len(context.model.buckets)} buckets")


def _open_groups(context: Context) -> Answer:
    """Each group that was made opens again, with its dead letters."""
    for key, model in sorted(context.model.groups.items()):
        if model.maybe_deleted and key[0] in context.model.topics:
            topic, _ = topics.open_topic(context, key[0])
            if key[1] not in topic.groups():
                groups.forget(context, key)
                continue
        model.maybe_deleted = False
        if key[0] not in context.model.topics:
            continue
        topic, topic_model = topics.open_topic(context, key[0])
        is_there = key[1] in topic.groups() or model.is_damaged
        require(is_there, Promise.KEPT, f"group {key[1]} of {key[0]} is gone")
        group, model, topic_model = groups.open_named(context, *key)
        groups.look_at_letters(context, group, model, topic_model, key[0])
    return Answer(Outcome.OK, f"{len(context.model.groups)} groups")


def _looked(context: Context, look: Callable[[], Answer]) -> str:
    try:
        return look().words
    except LakebedError as error:
        return context.refused(error, "a look", is_damaged=context.is_any_damaged).words


def note_opening(context: Context) -> None:
    """The store is about to be opened: leases are found as they were written down."""
    is_vague = context.parts.pop("leases_vague", False)
    for group in context.model.groups.values():
        for part in group.partitions:
            part.reopened(context.machine.now_ns, is_clock_stepped=is_vague)


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
    what = f"threads ran {switches} times in ten minutes without calls"
    require(switches < 20_000, Promise.QUIET, what)
    check_tasks(context)
    context.story(f"quiet time: threads ran {switches} times")


def check_rest(context: Context) -> None:
    """After quiet time nothing is owed, nothing grows, and nothing fails without a reason."""
    store = context.store
    if not context.is_any_damaged and context.machine.settings["manifest"]:
        failures = [f"{failed.kind} {failed.name}: {failed.error}" for failed in store.failures()]
        require(not failures, Promise.TASKS, f"in quiet time something fails: {failures[:2]}")
    _check_tier2(context)
    for name in sorted(context.model.logs):
        _looked(context, partial(tiers.read_archive, context, name))
    _check_leftovers(context)
    _check_damage(context)


def _check_producers(context: Context) -> None:
    """Producers that were quiet for longer than `producer_ms` are forgotten."""
    for name in sorted(context.model.topics):
        topic, model = topics.open_topic(context, name)
        if topic.config.producer_ms > QUIET_MS or model.is_damaged:
            continue
        for partition in topic.opened_partitions():
            count = partition.producer_count
            what = f"{partition.name}: {count} producers are remembered, all of them long quiet"
            require(not count, Promise.BOUNDED, what)


def _check_tier2(context: Context) -> None:
    """Objects of segments that left their log are deleted."""
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
        what = f"log {name}: {len(left)} objects of segments that are gone are left in Tier 2"
        require(not left, Promise.QUIET, what)


def _check_leftovers(context: Context) -> None:
    """No file that was being written is left over."""
    paths = context.machine.world.disk.file_paths()
    left = [path for path in paths if path.endswith(TEMPORARY_SUFFIX)]
    may = context.has_ever_troubled or context.is_any_damaged
    require(not left or may, Promise.BOUNDED, f"files that were being written are left: {left[:2]}")
    pins = [path for path in paths if "/pins/" in path]
    require(len(pins) <= PINS_MAX, Promise.BOUNDED, f"{len(pins)} pins are left")


def _check_damage(context: Context) -> None:
    """What was lost of a topic is reported until it is acknowledged."""
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
        what = f"topic {name} was damaged, and verification reports nothing of it any more"
        require(is_told, Promise.DAMAGE_ON_RECORD, what)


def check_end(context: Context) -> None:
    """Nothing is under way: what was promised can be counted."""
    check_opened(context)
    for key in sorted(context.model.groups):
        drain(context, *key)
    context.machine.world.runner.sleep_ns(QUIET_MS * NS_PER_MS)
    _check_producers(context)


def drain(context: Context, topic_name: str, name: str) -> None:
    """Lease and ack all that is left: then every message was settled, or is a dead letter."""
    if context.model.groups[topic_name, name].is_damaged:
        return
    group, model, topic_model = groups.open_named(context, topic_name, name)
    if model.is_damaged or any(part.is_damaged for part in topic_model.partitions):
        return
    where = f"group {name} of {topic_name}"
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
    require(not sum(lag.values()), Promise.ACCOUNTED, f"{where}: the lag stays at {lag}")
    topics.read_topic(context, topic_name)
    groups.look_at_letters(context, group, model, topic_model, topic_name)
    for number, part in enumerate(model.partitions):
        known = topic_model.partitions[number]
        for offset, stored in sorted(known.messages.items()):
            is_settled = offset in part.settled or offset in part.maybe_settled
            is_letter = (number, offset) in model.letters or offset in part.buried
            if context.machine.has_retained_topics:  # letters are removed by retention, too
                is_letter = is_letter or part.may_be_buried(offset)
            what = (
                f"{part.name}: offset {offset} ({str(stored.value)[:20]}) was never settled, is "
                "not delivered, and is no dead letter"
            )
            require(is_settled or is_letter, Promise.ACCOUNTED, what)


def note_closed(context: Context) -> None:
    """What was only written is synced, unless the disk failed meanwhile."""
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
    """In order. Everything that was appended is durable, unless closing fails."""
    topics.settle_appends(context)
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
    context.parts.pop("busy", None)
    # Of what was not synced a power cut keeps any part: behind a gap that looks like damage.
    context.may_have_gaps = context.may_have_gaps or crash is Crash.POWER
    now_ns = context.machine.now_ns
    is_lost = crash is Crash.POWER or context.is_troubled
    limit_ns = 1 << 62 if context.is_troubled else UNSYNCED_NS
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
    context.parts.pop("appends", None)


def may_not_open(context: Context) -> bool:
    """Whether a fault that is still there explains it."""
    return context.is_troubled
