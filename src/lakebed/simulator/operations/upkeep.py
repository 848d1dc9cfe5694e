"""Operator actions on a whole store: pins, backup, restore, verification, damage records."""

from __future__ import annotations

from random import Random
from typing import Any

from lakebed.base.damage_ledger import DamageRecord
from lakebed.base.errors import LakebedError, NotFound
from lakebed.simulator.context import Answer, Context, Operation, Outcome, pick
from lakebed.simulator.machine import ROOT
from lakebed.simulator.model.logs import LogModel, Pinned
from lakebed.simulator.operations import logs, topics
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, Violation, require
from lakebed.store.backup import create_backup, open_vault, restore
from lakebed.store.store import Store
from lakebed.store.store_check import StoreReport

VAULT = "/vault"
RESTORED = "/restored"


def _draw_nothing(_random: Random) -> dict[str, Any]:
    return {}


# Pins.


def _draw_pin(random: Random) -> dict[str, Any]:
    return {
        "log": random.randrange(len(logs.NAMES)),
        "segment": random.randrange(8),
        "ms": random.choice([1_000, 100_000, 3_600_000]),
    }


def _pin(context: Context, step: Step) -> Answer:
    """Pins a segment, so that retention must not remove it or any later segment."""
    name = logs.NAMES[step.arguments["log"]]
    log, model = logs.open_log(context, name)
    segments = log.segments()
    if not segments:
        return Answer(Outcome.NOTHING, f"pin a segment of log {name}: the log has no segments")
    info = pick(list(segments), step.arguments["segment"])
    what = f"pin segment {info.segment_id} of log {name} for {step.arguments['ms']} ms"
    expires_ms = context.machine.wall_ms + step.arguments["ms"]
    try:
        pin = context.store.pins.pin(
            name,
            segment_start=info.segment_id,
            segment_end=info.segment_id + 1,
            duration_ms=step.arguments["ms"],
            owner="simulator",
        )
    except LakebedError as error:
        return context.refused(error, what)
    if any(each.segment_id == info.segment_id for each in log.segments()):
        model.pins[pin.pin_id] = Pinned(info.segment_id << 32, expires_ms)
    return Answer(Outcome.OK, what)


def _unpin(context: Context, step: Step) -> Answer:
    name = logs.NAMES[step.arguments["log"]]
    model = context.model.logs.setdefault(name, LogModel(name))
    if not model.pins:
        return Answer(Outcome.NOTHING, f"release a pin of log {name}: there are no pins")
    pin_id = pick(list(model.pins), step.arguments["segment"])
    del model.pins[pin_id]
    try:
        context.store.pins.release(pin_id)
    except LakebedError as error:
        return context.refused(error, f"release a pin of log {name}")
    return Answer(Outcome.OK, f"release a pin of log {name}")


# Verification.


def verify(context: Context) -> tuple[StoreReport, list[str]]:
    """Verifies the open store. Returns the report, and its problems as lines of text."""
    report = context.store.maintenance.verify_store()
    found: list[str] = []
    for log in report.logs:
        found += [f"log {log.name}: {problem}" for problem in log.problems]
        if log.unreached is not None:
            found.append(f"log {log.name}: {log.unreached}")
    for topic in report.topics:
        found += [f"topic {topic.name}: {problem}" for problem in topic.report.problems]
    found += [f"group: {problem}" for problem in report.groups.problems]
    found += [f"objects: {problem}" for problem in report.objects.problems]
    found += [f"unchecked: {unchecked}" for unchecked in report.unchecked]
    found += [f"damage on record: {record}" for record in report.damage]
    return report, found


def _verify(context: Context, _step: Step) -> Answer:
    return check_verification(context)


def check_verification(context: Context) -> Answer:
    """Verifies the store, and checks that no problem is reported unless data was damaged or the
    disk has failed.
    """
    try:
        _, found = verify(context)
    except LakebedError as error:
        return context.refused(error, "verify", is_damaged=context.is_any_damaged)
    bugs = [line for line in found if "this is a bug" in line]
    require(not bugs, Promise.ERRORS, f"verification reports a bug in itself: {bugs[:1]}")
    if context.may_have_gaps or context.has_ever_troubled:
        found = [line for line in found if not line.startswith(("damage on record", "group"))]
    if not context.is_any_damaged and not context.is_troubled:
        wrong = f"nothing was damaged, but verification reports {found[:2]}"
        require(not found, Promise.DAMAGE_ONLY, wrong)
    return Answer(Outcome.OK, f"verify: {len(found)} problems")


def _list_damage(context: Context, _step: Step) -> Answer:
    """Lists the damage records, and checks that they are kept until they are acknowledged."""
    known: dict[int, DamageRecord] = context.parts.setdefault("losses", {})
    try:
        records = context.store.damage.list()
    except LakebedError as error:
        return context.refused(error, "list damage", is_damaged=context.is_any_damaged)
    listed = {record.id: record for record in records if record.acknowledged_ms is None}
    deleted: set[str] = context.parts.get("deleted_names", set())
    gone = [record for record in known.values() if record.id not in listed]
    gone = [record for record in gone if deleted.isdisjoint(_names_of(record))]
    wrong = f"damage records {list(map(str, gone))} are missing, but were not acknowledged"
    require(not gone, Promise.DAMAGE_ON_RECORD, wrong)
    may = context.is_any_damaged or context.has_ever_troubled or context.may_have_gaps
    if records and not may:
        raise Violation(
            Promise.DAMAGE_ONLY, f"nothing was damaged, but damage is on record: {records[0]}"
        )
    context.parts["losses"] = listed
    return Answer(Outcome.OK, f"list damage: {len(records)} records")


def _names_of(record: DamageRecord) -> set[str]:
    """Returns the names of topics and groups whose deletion removes the record. The record of a
    group is also removed with its topic.
    """
    return {record.name, record.name.partition("/")[0]}


def _acknowledge(context: Context, step: Step) -> Answer:
    known: dict[int, DamageRecord] = context.parts.setdefault("losses", {})
    if not known:
        return Answer(Outcome.NOTHING, "acknowledge damage: there are no damage records")
    record_id = pick(sorted(known), step.arguments["damage"])
    del known[record_id]
    context.parts["acknowledged"] = True
    try:
        context.store.damage.acknowledge(record_id)
    except NotFound:
        return Answer(Outcome.REFUSED, f"acknowledge damage record {record_id}: it does not exist")
    except LakebedError as error:
        return context.refused(error, f"acknowledge damage record {record_id}", is_damaged=True)
    return Answer(Outcome.OK, f"acknowledge damage record {record_id}")


# Backups.


def _back_up(context: Context, step: Step) -> Answer:
    """Backs up the open store, restores the backup elsewhere, and compares logs and topics."""
    machine, store = context.machine, context.store
    if any(model.in_flight for model in context.model.logs.values()):
        return Answer(
            Outcome.NOTHING, "back up and restore: skipped, because other clients are appending"
        )
    acknowledged = {
        name: [record.record_id for record in model.records[model.first : model.durable_count]]
        for name, model in context.model.logs.items()
    }
    produced = {
        (name, number): {
            offset for offset in part.messages if offset < min(part.written_ns, default=part.end)
        }
        for name, topic in context.model.topics.items()
        for number, part in enumerate(topic.partitions)
    }
    disk, runner = machine.world.disk, machine.world.runner
    try:
        with store.open_read_only() as reader:
            vault = open_vault(VAULT, disk=disk, runner=runner)
            taken = create_backup(
                reader,
                vault,
                connector=machine.databases.connect,
                new_token=lambda: f"{step.number:08x}",
            )
        restore(vault, taken.snapshot, RESTORED, disk=disk, connector=machine.databases.connect)
        _compare(context, acknowledged, produced)
    except LakebedError as error:
        return context.refused(error, "back up and restore", is_damaged=context.is_any_damaged)
    finally:
        machine.remove(RESTORED)
        machine.remove(VAULT)
    return Answer(Outcome.OK, f"back up and restore: {len(taken.snapshot.files)} files")


def _compare(
    context: Context,
    acknowledged: dict[str, list[int]],
    produced: dict[tuple[str, int], set[int]],
) -> None:
    """Checks that the restored store has the records and messages acknowledged before the backup,
    except those that retention may have removed.

    Does nothing if data was damaged on purpose.
    """
    if context.is_any_damaged:
        return
    with context.machine.open_at(RESTORED) as store:
        for name, ids in acknowledged.items():
            model = context.model.logs[name]
            seen = [logs.seen_of(record) for record in store.log(name).read()]
            model.read(seen, is_partial=True)
            missing = set(ids) - {record.record_id for record in seen}
            may = any(rule.is_any for rule in model.rules)
            wrong = f"log {name}: {len(missing)} records are missing from a restored backup"
            require(not missing or may, Promise.BACKUP, wrong)
        for (name, number), offsets in produced.items():
            _compare_partition(context, store, name, number, offsets)


def _compare_partition(
    context: Context, store: Store, name: str, number: int, offsets: set[int]
) -> None:
    topic = context.model.topics.get(name)
    if topic is None or name not in store.topics.names():
        return
    known = topic.partitions[number]
    restored = store.topics.open(name)
    partition = restored.partition(number)
    found = {message.offset: message for message in partition.read()}
    # The backup has the settings of the last `topic.configure`, which apply when the restored
    # topic is opened, although the original topic may not have been opened with them yet.
    rule = topic.rule.or_else(topics.rule_of(restored.config))
    known.restored(offsets, found, start=partition.start_offset(), rule=rule)
    for offset, message in found.items():
        expected = known.messages.get(offset) or known.removed.get(offset)
        if expected is not None:
            is_same = topics.seen_of(message).message[:3] == expected[:3]
            require(
                is_same,
                Promise.BACKUP,
                f"{known.name}: offset {offset} has different bytes in a backup",
            )


def _draw_damage(random: Random) -> dict[str, Any]:
    return {"damage": random.randrange(10)}


OPERATIONS = (
    Operation("pin.create", 1, _draw_pin, _pin),
    Operation("pin.release", 0.5, _draw_pin, _unpin),
    Operation("store.verify", 0.7, _draw_nothing, _verify, is_alone=True),
    Operation("store.backup", 0.3, _draw_nothing, _back_up, is_alone=True),
    Operation("damage.list", 0.5, _draw_nothing, _list_damage, is_alone=True),
    Operation("damage.acknowledge", 0.3, _draw_damage, _acknowledge, is_alone=True),
)
__all__ = ["OPERATIONS", "ROOT", "check_verification", "verify"]
