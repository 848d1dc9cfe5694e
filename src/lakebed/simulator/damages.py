"""Damage to bytes that were durable: flipped bits, cut and lost files. Each is found by
verification as soon as it is there, is never served, and stops nothing else.

Damage is planted where it destroys something: in a record, a message or an object that can be
read. What is hit is in the model from then on as damaged: it may be missing, and never wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from lakebed.base.errors import LakebedError
from lakebed.simulator.context import Answer, Context, Outcome, pick
from lakebed.simulator.machine import ROOT
from lakebed.simulator.model.topics import PartitionModel
from lakebed.simulator.operations import logs, objects, topics, upkeep
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, require

_PAYLOAD_START = 24  # of a record in a log: behind its header


def draw_damage(random: Random) -> dict[str, Any]:
    return {
        "target": random.choice(["log", "topic", "object", "group"]),
        "how": random.choice(["flip", "flip", "cut", "lose"]),
        "which": random.randrange(1000),
        "bit": random.randrange(8),
    }


def plant(context: Context, step: Step) -> Answer:
    """Damage something, and look at once whether verification finds it."""
    context.store  # noqa: B018 - one must be open
    target = step.arguments["target"]
    planters: dict[str, Callable[[Context, Step], str | None]] = {
        "log": _damage_log,
        "topic": _damage_topic,
        "object": _damage_object,
        "group": _damage_group,
    }
    if context.is_troubled:
        return Answer(Outcome.NOTHING, f"damage a {target}: the disk is in trouble already")
    what = planters[target](context, step)
    if what is None:
        return Answer(Outcome.NOTHING, f"damage a {target}: there is nothing to damage")
    try:
        _, found = upkeep.verify(context)
    except LakebedError as error:
        return context.refused(error, f"verify after {what}", is_damaged=True)
    hits = [line for line in found if target in line.split(":")[0] or "damage on record" in line]
    require(bool(hits), Promise.DAMAGE_FOUND, f"{what}: verification does not find it")
    return Answer(Outcome.OK, f"{what}: verification finds it")


def _apply(context: Context, step: Step, path: str, position: int) -> str:
    """The damage itself; what was done, in words."""
    disk, how = context.machine.world.disk, step.arguments["how"]
    short = path.removeprefix(ROOT + "/")
    if how == "lose":
        disk.lose(path)
        words = f"{short} disappears"
    elif how == "cut":
        disk.cut(path, size=position + 1)
        words = f"{short} is cut after {position + 1} bytes"
    else:
        disk.flip_bit(path, offset=position, bit=step.arguments["bit"])
        words = f"a bit of byte {position} of {short} flips"
    context.model.damaged_files[path] = words
    return words


def _damage_log(context: Context, step: Step) -> str | None:
    """A record of a sealed segment in Tier 0 that no other tier has."""
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
    """A message of a sealed segment of a topic."""
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
    """Bytes of a version of an object, wherever they are; copies share them."""
    disk = context.machine.world.disk
    segments = [p for p in disk.file_paths() if p.startswith(f"{ROOT}/objects/segments/")]
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
    """A flip hits one chunk; a file that is cut or lost takes all that is in it."""
    before = context.machine.world.disk.content_of(path)
    words = _apply(context, step, path, position)
    how = step.arguments["how"]
    for bucket in context.model.buckets.values():
        for key, model in bucket.keys.items():
            for content in (v.content for state in model.states for v in state if v.content):
                place = before.find(content[: objects.HEAD_BYTES])
                is_hit = place == position if how == "flip" else place >= 0
                if is_hit or (how != "flip" and len(content) < objects.HEAD_BYTES):
                    bucket.damaged_keys.add(key)
    if how != "flip":  # the cold segments of logs are there, too
        for log in context.model.logs.values():
            log.damaged.add(path)
    return words


def _damage_group(context: Context, step: Step) -> str | None:
    """A byte of a file that keeps what a group knows."""
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


# Files that disappear and come back.


class Vanish(BaseException):
    """The store is to be closed, a file taken away, and what happens then looked at."""

    def __init__(self, step: Step) -> None:
        super().__init__("vanish")
        self.step = step


def draw_vanishing(random: Random) -> dict[str, Any]:
    return {"file": random.choice(["topic.json", "meta.db"]), "which": random.randrange(1000)}


def vanish(context: Context, step: Step) -> Answer:
    context.store  # noqa: B018 - one must be open
    raise Vanish(step)


def take_away(context: Context, step: Step) -> tuple[str, bytes] | None:
    """The file that goes, and its bytes; None if there is none. The store is closed."""
    disk = context.machine.world.disk
    name = step.arguments["file"]
    paths = [
        path
        for path in disk.file_paths()
        if path.startswith(ROOT + "/") and path.endswith("/" + name)
    ]
    if not paths:
        return None
    path = pick(paths, step.arguments["which"])
    content = disk.content_of(path)
    disk.lose(path)
    context.story(f"{path.removeprefix(ROOT + '/')} disappears")
    return path, content


def poke(context: Context, path: str) -> None:
    """What a program does that does not know: open, create if need be. It must destroy nothing."""
    store = context.store
    if path.endswith("meta.db"):
        try:
            store.bucket("photos")
        except LakebedError as error:
            context.story(f"buckets are refused: {type(error).__name__}")
        return
    name = path.split("/")[-2]
    try:
        store.topic(name)
    except LakebedError as error:
        context.story(f"topic {name} is refused: {type(error).__name__}")


def put_back(context: Context, path: str, content: bytes) -> None:
    """The file is there again as it was."""
    context.machine.world.disk.place(path, content)
