"""Damages durable files: flips bits, and truncates or removes files.

Verification must find the damage immediately, damaged bytes must never be returned, and everything
else must keep working. Damage is planted where it destroys a record, message or object that can
be read, or events of a group. The model then marks that item as damaged: it may be missing, but
must never be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError, NotFound
from lakebed.simulator.context import Answer, Context, Outcome, pick
from lakebed.simulator.machine import ROOT
from lakebed.simulator.model.topics import PartitionModel
from lakebed.simulator.operations import logs, objects, topics, upkeep
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, Violation, require
from lakebed.stroma.group_opener import damage_name
from lakebed.stroma.paths import GroupPaths, decode_stem, list_groups

_SETTLE_NS = 10 * NS_PER_S
_PIECE_BYTES = 500  # distance between the places of an object that are searched for in a file
_PAYLOAD_START = 24  # of a record in a log: after its header


def draw_damage(random: Random) -> dict[str, Any]:
    return {
        "target": random.choice(["log", "topic", "object", "group"]),
        "how": random.choice(["flip", "flip", "cut", "lose"]),
        "which": random.randrange(1000),
        "bit": random.randrange(8),
        "short": random.random() < 0.3,  # a cut leaves less than a header
    }


def plant(context: Context, step: Step) -> Answer:
    """Damages a file of the drawn kind, and checks that verification finds the damage."""
    context.store  # noqa: B018 - raises if no store is open
    target = step.arguments["target"]
    planters: dict[str, Callable[[Context, Step], str | None]] = {
        "log": _damage_log,
        "topic": _damage_topic,
        "object": _damage_object,
        "group": _damage_group,
    }
    if context.is_troubled:
        return Answer(
            Outcome.NOTHING, f"damage a {target}: skipped, because the disk already has a fault"
        )
    # What background work has not written yet cannot be missed by verification.
    context.machine.world.runner.sleep_ns(_SETTLE_NS)
    try:
        _, earlier = upkeep.verify(context)
        what = planters[target](context, step)
    except LakebedError as error:
        return context.refused(error, f"damage a {target}", is_damaged=context.is_any_damaged)
    if what is None:
        return Answer(Outcome.NOTHING, f"damage a {target}: nothing to damage")
    try:
        _, found = upkeep.verify(context)
    except LakebedError as error:
        return context.refused(error, f"{what}; verify", is_damaged=True)
    new = [line for line in found if line not in earlier]
    hits = [line for line in new if target in line.split(":")[0] or "damage on record" in line]
    require(bool(hits), Promise.DAMAGE_FOUND, f"{what}; verification does not find the damage")
    return Answer(Outcome.OK, f"{what}; verification finds the damage")


def _apply(context: Context, step: Step, path: str, position: int) -> str:
    """Damages the file, and returns a description for the trace."""
    disk, how = context.machine.world.disk, step.arguments["how"]
    short = path.removeprefix(ROOT + "/")
    if how == "lose":
        disk.lose(path)
        words = f"remove {short}"
    elif how == "cut":
        size = step.arguments["which"] % 17 if step.arguments.get("short") else position + 1
        disk.cut(path, size=size)
        words = f"truncate {short} to {size} bytes"
    else:
        disk.flip_bit(path, offset=position, bit=step.arguments["bit"])
        words = f"flip a bit of byte {position} of {short}"
    context.model.damaged_files[path] = words
    return words


def _damage_log(context: Context, step: Step) -> str | None:
    """Damages a record of a sealed segment that only Tier 0 has. Returns what was done, or
    None if there is nothing to damage.
    """
    name = pick(list(logs.NAMES), step.arguments["which"])
    if name not in context.model.logs:
        return None
    log, model = logs.open_log(context, name)
    if model.in_flight or model.damaged:
        return None
    alone = {place.segment_id for place in log.tiers.residency() if place.tiers == (0,)}
    sealed = {
        info.segment_id: info
        for info in log.segments()
        if info.is_sealed and info.tier == 0 and info.segment_id in alone
    }
    if step.arguments["how"] == "lose" and sealed:
        # If the oldest file is missing while the log is open, verification notes that retention may
        # have removed it.
        sealed.pop(min(info.segment_id for info in log.segments()), None)
    durable = model.records[model.first : model.durable_count]
    hit = [record for record in durable if record.record_id >> 32 in sealed]
    if not hit:
        return None
    record = pick(hit, step.arguments["which"])
    info = sealed[record.record_id >> 32]
    position = (record.record_id & 0xFFFFFFFF) + _PAYLOAD_START
    model.damaged.add(info.path)
    return _apply(context, step, info.path, position)


def _damage_topic(context: Context, step: Step) -> str | None:
    """Damages a message in a sealed segment. Returns what was done, or None if there is nothing to
    damage.
    """
    for name in topics.NAMES:
        model = context.model.topics.get(name)
        if model is None or any(part.is_damaged or part.in_flight for part in model.partitions):
            continue
        topic, model = topics.open_topic(context, name)
        for number, known in enumerate(model.partitions):
            found = _sealed_message(context, topic.partition(number).segments(), known)
            if found is not None:
                known.is_damaged = True
                return _apply(context, step, *found)
    return None


def _sealed_message(
    context: Context, segments: Any, known: PartitionModel
) -> tuple[str, int] | None:
    disk = context.machine.world.disk
    for info in segments:
        if not info.is_sealed or not disk.exists(info.path):
            continue
        content = disk.content_of(info.path)[: info.end]
        for offset, message in sorted(known.messages.items()):
            if message.value and info.base_offset <= offset < info.next_offset:
                position = content.find(message.value)
                if position >= 0:
                    return info.path, position
    return None


def _damage_object(context: Context, step: Step) -> str | None:
    """Damages the stored bytes of an object, which copies of the object share. Returns what was
    done, or None if there is nothing to damage.
    """
    disk = context.machine.world.disk
    segments = sorted(p for p in disk.file_paths() if p.startswith(f"{ROOT}/objects/segments/"))
    if step.arguments["how"] != "flip":
        segments = segments[:-1]  # objects are still being written to the last one
    for name, bucket in sorted(context.model.buckets.items()):
        for key, model in sorted(bucket.keys.items()):
            contents = [v.content for state in model.states for v in state if v.content]
            if not model.is_known or not contents or key in bucket.damaged_keys:
                continue
            content = pick(contents, step.arguments["which"])
            head = content[: objects.HEAD_BYTES]
            if len(head) < objects.HEAD_BYTES:
                continue
            for path in segments:
                position = disk.content_of(path).find(head)
                if position >= 0:
                    return _apply_to_object(context, step, path, position, name)
    return None


def _apply_to_object(context: Context, step: Step, path: str, position: int, _name: str) -> str:
    """Damages the file, and marks every object as damaged that may have bytes in the damaged part.

    A flipped bit affects one chunk. If the file is truncated or removed, every object with bytes in
    the file is marked.
    """
    before = context.machine.world.disk.content_of(path)
    words = _apply(context, step, path, position)
    how = step.arguments["how"]
    for bucket in context.model.buckets.values():
        for key, model in bucket.keys.items():
            for content in (v.content for state in model.states for v in state if v.content):
                if how == "flip":
                    is_hit = before.find(content[: objects.HEAD_BYTES]) == position
                else:  # the parts of an object may be in several files
                    starts = range(0, len(content), _PIECE_BYTES)
                    is_hit = any(content[i : i + objects.HEAD_BYTES] in before for i in starts)
                    is_hit |= any(head in before for head in objects.part_heads(content))
                if is_hit or (how != "flip" and len(content) < objects.HEAD_BYTES):
                    bucket.damaged_keys.add(key)
    if how != "flip":  # the file may also hold cold segments of logs
        for log in context.model.logs.values():
            log.damaged.add(path)
    return words


def _damage_group(context: Context, step: Step) -> str | None:
    """Flips a bit in the delta log of a group. Returns what was done.

    Returns None if no group can be damaged, or if the step does not flip a bit.
    """
    disk = context.machine.world.disk
    for (topic_name, name), model in sorted(context.model.groups.items()):
        if model.is_damaged or model.in_flight_any or topic_name not in context.model.topics:
            continue
        prefix = f"{ROOT}/groups/{topic_name}-"
        paths = [
            path
            for path in disk.file_paths()
            if path.startswith(prefix)
            and path.endswith(f"_{name}.delta")
            and disk.size_of(path) > 60
        ]
        if paths and step.arguments["how"] == "flip":
            model.is_damaged = True
            return _apply(context, step, paths[0], 20)
    return None


# Files that go missing and are put back.


class Vanish(BaseException):
    """Asks the run to close the store, and to open it once while a file is missing."""

    def __init__(self, step: Step) -> None:
        super().__init__("vanish")
        self.step = step


def draw_vanishing(random: Random) -> dict[str, Any]:
    return {
        "file": random.choice(["topic.json", "meta.db", ".delta"]),
        "which": random.randrange(1000),
    }


def vanish(context: Context, step: Step) -> Answer:
    context.store  # noqa: B018 - raises if no store is open
    raise Vanish(step)


def take_away(context: Context, step: Step) -> tuple[str, bytes] | None:
    """Removes a file of the closed store, and returns its path and contents.

    Returns None if the store has no file of the drawn name that can be removed.
    """
    disk = context.machine.world.disk
    name = step.arguments["file"]
    paths = [
        path
        for path in disk.file_paths()
        if path.startswith(ROOT + "/") and path.endswith("/" + name) and "/+" not in path
    ]
    if name == ".delta":
        paths = [] if context.is_troubled else _whole_deltas(context)
    if not paths:
        return None
    path = pick(paths, step.arguments["which"])
    content = disk.content_of(path)
    disk.lose(path)
    context.story(f"remove {path.removeprefix(ROOT + '/')} for a while")
    return path, content


def _whole_deltas(context: Context) -> list[str]:
    """Returns the paths of the delta logs of groups that are not damaged and have a snapshot.

    A group that has no snapshot and loses its delta log would look like a new group.
    """
    return [
        GroupPaths(ROOT, name).delta
        for name in list_groups(context.machine.world.disk, ROOT)
        if (model := context.model.groups.get((name.topic, name.group)))
        and not (model.is_damaged or model.maybe_deleted)
        and name.topic in context.model.topics
        and context.machine.world.disk.exists(GroupPaths(ROOT, name).delta)
        and context.machine.world.disk.exists(GroupPaths(ROOT, name).snapshot)
    ]


def poke(context: Context, path: str) -> None:
    """Uses the store while the file at `path` is missing, which must destroy no data.

    If the file is a `topic.json`, opens or creates its topic; if it is the metadata of the objects,
    lists the buckets. If it is the delta log of a group, the loss must be found and stay on record.
    """
    store = context.store
    if path.endswith(".delta"):
        _poke_group(context, path)
        return
    if path.endswith("meta.db"):
        _poke_buckets(context)
        return
    name = path.split("/")[-2]
    try:
        store.topic(name)
    except LakebedError as error:
        context.story(f"open topic {name}: {type(error).__name__}")


def _poke_group(context: Context, path: str) -> None:
    """Checks that verification finds the missing delta log, and that opening the group records the
    loss.
    """
    name = decode_stem(path.rpartition("/")[2].removesuffix(".delta"))
    assert name is not None, "the names of the simulator's groups are short"
    model = context.model.groups[name.topic, name.group]
    model.is_damaged = True
    model.partitions[name.partition].lost_events()
    context.model.damaged_files[path] = f"remove {path.removeprefix(ROOT + '/')}"
    _, found = upkeep.verify(context)
    wrong = f"{path} is missing; verification does not find it"
    require(any(path in line for line in found), Promise.DAMAGE_FOUND, wrong)
    group = context.store.topic(name.topic).group(name.group)
    problems = group.describe()[name.partition].problems
    context.story(f"open group {name} without its delta log: {problems}")
    records = [
        record
        for record in context.store.damage.list()
        if (record.name, record.partition) == (damage_name(name.topic, name.group), name.partition)
    ]
    wrong = f"{path} was missing when its group was opened; the loss is not on record"
    require(bool(records), Promise.DAMAGE_ON_RECORD, wrong)


def _poke_buckets(context: Context) -> None:
    """Checks that a store whose metadata is missing does not report buckets as empty or missing."""
    for name, bucket in sorted(context.model.buckets.items()):
        has_objects = any(None not in model.current() for model in bucket.keys.values())
        if bucket.maybe_gone or not has_objects:
            continue
        try:
            rows = list(context.open_bucket(name).list())
        except NotFound as error:
            wrong = f"without the metadata, bucket {name} is reported as missing: {error}"
            raise Violation(Promise.KEPT, wrong) from error
        except LakebedError as error:
            context.story(f"bucket {name} is refused: {type(error).__name__}")
            continue
        wrong = f"without the metadata, bucket {name} is reported as empty"
        require(bool(rows), Promise.KEPT, wrong)


def put_back(context: Context, path: str, content: bytes) -> None:
    """Restores a file that `take_away` removed.

    Does nothing if the file is the delta log of a group, and the store has created a new one.
    """
    if path.endswith(".delta") and context.machine.world.disk.exists(path):
        return
    context.machine.world.disk.place(path, content)
