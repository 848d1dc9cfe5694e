"""Client operations on logs: append, flush, seal, read, seek, follow and close."""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any

from lakebed.aof.errors import NotDurableYet, WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import LakebedError, NotFound
from lakebed.simulator.context import Answer, Context, Operation, Outcome, pick
from lakebed.simulator.model.logs import LogModel, ModelRecord, RetentionRule, Seen
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, require

NAMES = ("alpha", "beta")
SIZES = (10, 10, 300, 300, 9_000, 25_000)
HOUR_NS = 3600 * NS_PER_S
FLUSH_S = 20.0


def rule_of(context: Context) -> RetentionRule:
    settings = context.machine.settings
    return RetentionRule(
        count_max=settings["log_count_max"],
        bytes_max=settings["log_bytes_max"],
        age_ms_max=settings["log_age_ms_max"],
        archive=settings["log_archive"],
    )


def open_log(context: Context, name: str) -> tuple[Aof, LogModel]:
    """Returns the log and its model.

    If this call opened the log, its durable end is recorded in the model.
    """
    log = context.store.log(name)
    model = context.model.logs.setdefault(name, LogModel(name))
    model.wall_ms = context.machine.latest_wall_ms
    if context.handles.get(("log", name)) is not log:
        context.handles["log", name] = log
        model.opened(int(log.durable_end()))
        model.rules.append(rule_of(context))
    return log, model


def payload_of(step: Step, index: int, size: int) -> bytes:
    """Returns a payload that is unique to this record of the step."""
    return f"{step.number}.{index} ".encode().ljust(
        size, b"abcdefgh"[step.number % 8 :][:1] or b"x"
    )


def seen_of(record: Any) -> Seen:
    return Seen(int(record.record_id), bytes(record.payload), record.timestamp)


def _draw_log(random: Random) -> dict[str, Any]:
    return {"log": random.randrange(len(NAMES))}


def _draw_append(random: Random) -> dict[str, Any]:
    return {
        **_draw_log(random),
        "count": random.choice([1, 1, 2, 5]),
        "size": random.choice(SIZES),
        "flush": random.random() < 0.6,
        "hours": random.choice([None] * 8 + [-2, 30]),  # explicit timestamp, relative to the clock
    }


def _append(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    payloads = [
        payload_of(step, index, step.arguments["size"]) for index in range(step.arguments["count"])
    ]
    hours = step.arguments["hours"]
    begun_ns = context.machine.world.clock.wall_ns()
    stamp = None if hours is None else begun_ns + hours * HOUR_NS
    what = f"append {len(payloads)} records of {len(payloads[0])} bytes to log {name}"

    def keep(ids: Any) -> None:
        ended_ns = context.machine.world.clock.wall_ns()
        model.appended(
            [
                ModelRecord(int(record_id), payload, stamp, (begun_ns, ended_ns))
                for record_id, payload in zip(ids, payloads, strict=False)
            ]
        )

    model.in_flight += 1
    try:
        ids = log.append_records(payloads, timestamps=stamp)
    except WouldBlock as error:
        keep(error.record_ids)
        return Answer(
            Outcome.REFUSED, f"{what}: {error.kind.value}, {len(error.record_ids)} records accepted"
        )
    except LakebedError as error:
        return context.refused(error, what, is_damaged=bool(model.damaged))
    finally:
        model.in_flight -= 1
    keep(ids)
    last = ids[-1]
    if not step.arguments["flush"]:
        return Answer(Outcome.OK, f"{what}: last id {last:x}")
    return _flushed(context, log, model, last, what)


def _flushed(
    context: Context, log: Aof, model: LogModel, last: RecordId | None, what: str
) -> Answer:
    known = None if last is None else int(last)
    if last is None and model.records:
        known = model.records[-1].record_id
    try:
        log.flush(last, timeout=FLUSH_S)
    except NotDurableYet as error:
        return context.refused(error, f"{what} and flush")
    except LakebedError as error:
        return context.refused(error, f"{what} and flush", is_damaged=bool(model.damaged))
    if known is not None:
        model.flushed(known)
    return Answer(Outcome.OK, f"{what}: durable")


def _flush(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    return _flushed(context, log, model, None, f"flush log {name}")


def _seal(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    appended = len(model.records)
    try:
        info = log.seal_current_segment(timeout=FLUSH_S)
    except LakebedError as error:
        return context.refused(error, f"seal log {name}", is_damaged=bool(model.damaged))
    if info is None:
        return Answer(Outcome.NOTHING, f"seal log {name}: nothing to seal")
    if model.in_flight == 0 and len(model.records) == appended:
        model.flushed()
    return Answer(Outcome.OK, f"seal log {name}: segment {info.segment_id}")


def read_log(context: Context, name: str) -> Answer:
    """Reads the whole log and compares it with the model."""
    log, model = open_log(context, name)
    seen: list[Seen] = []
    durable_count = model.durable_count
    try:
        for batch in log.read_batches():
            seen.extend(map(seen_of, batch))
    except LakebedError as error:
        model.read(seen, is_partial=True)
        return context.refused(error, f"read log {name}", is_damaged=bool(model.damaged))
    model.read(seen, durable_count=durable_count)
    return Answer(Outcome.OK, f"read log {name}: {len(seen)} records")


def _read(context: Context, step: Step) -> Answer:
    return read_log(context, NAMES[step.arguments["log"]])


def _draw_get(random: Random) -> dict[str, Any]:
    return {**_draw_log(random), "record": random.randrange(1000)}


def _get(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    durable = model.records[model.first : model.durable_count]
    if not durable:
        return Answer(Outcome.NOTHING, f"get a record of log {name}: the log is empty")
    record = pick(durable, step.arguments["record"])
    what = f"get record {record.record_id:x} of log {name}"
    try:
        found = log.get(RecordId(record.record_id))
    except NotFound as error:
        is_removable = any(rule.is_any for rule in model.rules) or bool(model.damaged)
        require(is_removable, Promise.KEPT, f"{what}: {error}")
        return Answer(Outcome.REFUSED, f"{what}: not found")
    except LakebedError as error:
        return context.refused(error, what, is_damaged=bool(model.damaged))
    model.read([seen_of(found)], is_partial=True)
    return Answer(Outcome.OK, what)


def _read_backward(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    seen: list[Seen] = []
    try:
        for record in log.read_backward():
            seen.append(seen_of(record))
            if len(seen) == 20:
                break
    except LakebedError as error:
        return context.refused(error, f"read log {name} backward", is_damaged=bool(model.damaged))
    model.read(seen[::-1], is_partial=True)
    return Answer(Outcome.OK, f"read log {name} backward: {len(seen)} records")


def _seek_time(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    durable = model.records[model.first : model.durable_count]
    if not durable:
        return Answer(Outcome.NOTHING, f"seek in log {name} by time: the log is empty")
    record = pick(durable, step.arguments["record"])
    what = f"seek in log {name} to the time of record {record.record_id:x}"
    try:
        stamp = log.get(RecordId(record.record_id)).timestamp
        place = log.seek_timestamp(stamp)
        log.get(RecordId(record.record_id))  # raises if it was removed in between
    except NotFound:
        return Answer(Outcome.REFUSED, f"{what}: not found")
    except LakebedError as error:
        return context.refused(error, what, is_damaged=bool(model.damaged))
    wrong = f"{what}: the result is {int(place):x}, after the record"
    require(int(place) <= record.record_id or bool(model.damaged), Promise.ORDER, wrong)
    return Answer(Outcome.OK, what)


def _follow(context: Context, step: Step) -> Answer:
    """Starts a follower at the oldest record, or continues the follower of an earlier step."""
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    held = context.followers.pop(name, None)
    if held is None or held[0] is not log:
        if held is not None:
            held[1].close()
        held = (log, log.follow(), [])
    _, follower, seen = held
    try:
        while (batch := follower.next_batch(timeout=0)) is not None:
            seen.extend(map(seen_of, batch))
    except LakebedError as error:
        follower.close()
        return context.refused(error, f"follow log {name}", is_damaged=bool(model.damaged))
    other = context.followers.pop(name, None)
    if other is not None:
        other[1].close()
    context.followers[name] = held
    model.read(seen, is_partial=True)
    return Answer(Outcome.OK, f"follow log {name}: {len(seen)} records so far")


def _unfollow(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["log"]]
    held = context.followers.pop(name, None)
    if held is None:
        return Answer(Outcome.NOTHING, f"stop following log {name}: there is no follower")
    held[1].close()
    return Answer(Outcome.OK, f"stop following log {name}")


def _draw_close(random: Random) -> dict[str, Any]:
    return {**_draw_log(random), "is_sealing": random.random() < 0.5}


def _close(context: Context, step: Step) -> Answer:
    """Closes the log, in half of the steps while its active segment is being sealed."""
    name = NAMES[step.arguments["log"]]
    log, model = open_log(context, name)
    what = f"close log {name}"
    if step.arguments.get("is_sealing"):
        what += " during a seal"
        with contextlib.suppress(LakebedError):
            log.seal_current_segment(timeout=0)
    appended = len(model.records)
    try:
        log.close()
    except LakebedError as error:
        return context.refused(error, what, is_damaged=bool(model.damaged))
    if len(model.records) == appended and model.in_flight == 0:
        model.flushed()
    return Answer(Outcome.OK, what)


OPERATIONS = (
    Operation("log.append", 14, _draw_append, _append),
    Operation("log.flush", 3, _draw_log, _flush),
    Operation("log.seal", 4, _draw_log, _seal),
    Operation("log.read", 2, _draw_log, _read),
    Operation("log.get", 2, _draw_get, _get),
    Operation("log.read_backward", 1, _draw_log, _read_backward),
    Operation("log.seek_time", 1, _draw_get, _seek_time),
    Operation("log.follow", 2, _draw_log, _follow),
    Operation("log.unfollow", 1, _draw_log, _unfollow),
    Operation("log.close", 2, _draw_close, _close),
)
