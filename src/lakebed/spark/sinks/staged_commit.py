"""A commit of what the tasks staged: handed over to the store once, whoever asks how often.

It runs in a process of its own, which knows nothing but the settings and the tasks' messages.

A version is whole in each partition, and comes to one after the other. As soon as one has it, only
what was decided first may come to the others: rows of another attempt may be spread in another way,
so that some would be there twice and some not at all. If the store cannot take that (its files are
gone, or a limit of the topic was lowered), the version is decided anew only if no partition has it
yet; else it is an error, `HalfCommitted`, which no repetition mends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from lakebed.base.clock import SystemClock
from lakebed.base.errors import InputError, LakebedError
from lakebed.spark.sinks.encoder import Encoder
from lakebed.spark.sinks.settings import SinkSettings, writing
from lakebed.spark.staging import Batches, Run, Staging
from lakebed.store.staged_batch import CommittedPartition

_log = logging.getLogger("lakebed.spark")


class HalfCommitted(LakebedError):
    """Some partitions have a version, and what was decided for the others cannot be committed."""

    exit_code = 65


@dataclass(frozen=True, kw_only=True)
class StagedRows(WriterCommitMessage):
    """What one task staged."""

    run: Run
    task: int
    batches: Batches = field(repr=False)


def stage(
    settings: SinkSettings, columns: dict[str, int], rows: Iterable[pa.RecordBatch], run: Run
) -> StagedRows:
    """In a task: encode its rows and stage them. Nothing is left of it if that fails."""
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    encoder = Encoder(
        columns,
        settings.target,
        spread=settings.spread,
        first_turn=run.version + task,
        clock=SystemClock(),
    )
    with settings.staging() as staging:
        writer = staging.writer(run)
        try:
            for partition, batch in encoder.encoded(rows):
                writer.append(partition, batch)
            batches = writer.finish()
        except BaseException:
            with _logging_errors("what a failed task staged was not removed"):
                writer.discard()
            raise
    return StagedRows(run=run, task=task, batches=batches)


def commit(settings: SinkSettings, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Durable when it returns, and then nothing staged is left.

    `InputError` if the store does not take it, and then no partition has anything of it.
    """
    found = _staged(messages)
    if not found:
        return  # a query without a task has no rows
    run = _run(found)
    with settings.staging() as staging:
        committed = _commit(settings, staging, run, _joined(found))
        count = sum(one.count for one in committed if one.is_new)
        _log.info("%s: %d messages of version %d committed", run.topic, count, run.version)
        with _logging_errors("what was staged was not removed"):
            staging.remove(run)
            staging.remove_leftovers()


def abort(settings: SinkSettings, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Remove what the tasks staged, but for what a commit has decided upon."""
    found = _staged(messages)
    with settings.staging() as staging, _logging_errors("what was staged was not removed"):
        for one in found:
            staging.discard(one.run, one.batches)


def hand_over(settings: SinkSettings, run: Run, batches: Batches) -> list[CommittedPartition]:
    """Every partition is told of the version, so that none takes rows of a repetition later."""
    with writing(settings.backend) as store:
        topic = store.topics.open(run.topic)
        every = {number: batches.get(number, []) for number in range(topic.partition_count)}
        return topic.commit_batches(run.application, run.version, every | batches)


def _commit(
    settings: SinkSettings, staging: Staging, run: Run, batches: Batches
) -> list[CommittedPartition]:
    """What was decided first; if the store refuses that, and has nothing of it yet, these."""
    while True:
        decided = staging.decide(run, batches)
        try:
            return hand_over(settings, run, decided)
        except InputError as error:
            _check_untouched(settings, run, error)
            staging.forget(run)  # or every repetition would be refused
            if decided == batches:
                raise
            _log.warning("%s: version %d is decided anew: %s", run.topic, run.version, error)


def _check_untouched(settings: SinkSettings, run: Run, refusal: InputError) -> None:
    """`HalfCommitted` if a partition has the version.

    Each is asked to take a batch that is none: one that has the version says so, and one that has
    it not refuses, and is not changed.
    """
    with writing(settings.backend) as store:
        topic = store.topics.open(run.topic)
        found = []
        for number in range(topic.partition_count):
            with suppress(InputError):
                topic.commit_batches(run.application, run.version, {number: [b""]})
                found.append(number)
    if found:
        raise HalfCommitted(
            f"{run.topic}: version {run.version} of {run.application!r} is in "
            f"{len(found)} of {topic.partition_count} partitions, and what was decided for the "
            f"others cannot be committed: {refusal}; bring back what was staged: rows of another "
            "attempt are not mixed with those that are there"
        ) from refusal


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    """By task; one that failed has none."""
    found = [message for message in messages if isinstance(message, StagedRows)]
    return sorted(found, key=lambda message: message.task)


def _run(messages: Sequence[StagedRows]) -> Run:
    runs = {message.run for message in messages}
    if len(runs) > 1:
        raise InputError(f"the tasks' messages are of several commits: {sorted(runs)}")
    return runs.pop()


def _joined(messages: Sequence[StagedRows]) -> Batches:
    batches: Batches = {}
    for message in messages:
        for partition, theirs in message.batches.items():
            batches.setdefault(partition, []).extend(theirs)
    return batches


@contextmanager
def _logging_errors(what: str) -> Iterator[None]:
    """Cleaning up is not worth a failure: what is left is removed after a day."""
    try:
        yield
    except LakebedError as error:
        _log.warning("%s: %s", what, error)
