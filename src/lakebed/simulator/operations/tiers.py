"""Operator actions on the segments of logs: upload, evict, hydrate, repair and archive reads."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from lakebed.aof.damage import SkippedRange
from lakebed.aof.log import Aof
from lakebed.aof.reader import LogReader
from lakebed.base.errors import LakebedError, NotFound
from lakebed.simulator.context import Answer, Context, Operation, Outcome
from lakebed.simulator.operations import logs
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, require


def _draw(random: Random) -> dict[str, Any]:
    return {"log": random.randrange(len(logs.NAMES)), "warm": random.random() < 0.5}


def _move(verb: str, move: Callable[[Aof, Step], list[Any]]) -> Callable[[Context, Step], Answer]:
    def run(context: Context, step: Step) -> Answer:
        name = logs.NAMES[step.arguments["log"]]
        log, model = logs.open_log(context, name)
        what = f"{verb} segments of log {name}"
        try:
            moved = move(log, step)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=bool(model.damaged))
        return Answer(Outcome.OK if moved else Outcome.NOTHING, f"{what}: {len(moved)}")

    return run


def _read_archive(context: Context, step: Step) -> Answer:
    return read_archive(context, logs.NAMES[step.arguments["log"]])


def read_archive(context: Context, name: str) -> Answer:
    """Checks that the archive of a log has every record that retention removed, unchanged.

    Records that were removed while the settings kept no archive may be missing, and the read skips
    those gaps. Other gaps are an error.
    """
    what = f"read the archive of log {name}"
    _, model = logs.open_log(context, name)
    skipped: list[SkippedRange] = []
    with context.store.open_read_only() as store:
        try:
            with LogReader(store.archived_log(name)) as reader:
                records = reader.read(
                    skip_damage=model.unarchived_first > 0,
                    on_skipped=skipped.append,
                )
                seen = [logs.seen_of(record) for record in records]
        except NotFound:
            return Answer(Outcome.NOTHING, f"{what}: there is none")
        except LakebedError as error:
            return context.refused(error, what, is_damaged=bool(model.damaged))
    if damage := [skip.error for skip in skipped if skip.end > 0]:
        context.refused(damage[0], what, is_damaged=bool(model.damaged))
    model.read(seen, is_partial=True, has_gaps=True)
    ids = {record.record_id for record in seen}
    lost = [
        record
        for record in model.records[model.unarchived_first : model.first]
        if record.record_id not in ids
    ]
    wrong = f"{what}: {len(lost)} records were removed, and are not there"
    require(not lost or bool(model.damaged) or context.is_troubled, Promise.KEPT, wrong)
    return Answer(Outcome.OK if seen else Outcome.NOTHING, f"{what}: {len(seen)} records")


OPERATIONS = (
    Operation("tier.upload", 1.5, _draw, _move("upload", lambda log, _: log.tiers.upload())),
    Operation(
        "tier.evict",
        1.5,
        _draw,
        _move("evict", lambda log, step: log.tiers.evict(warm=step.arguments["warm"])),
    ),
    Operation("tier.hydrate", 1, _draw, _move("hydrate", lambda log, _: log.tiers.hydrate())),
    Operation("tier.repair", 0.3, _draw, _move("repair", lambda log, _: log.tiers.repair())),
    Operation("archive.read", 1, _draw, _read_archive),
)
