"""Commits the batches that tasks staged to a topic, once per version, even if the commit is
repeated.

A version is one write to the topic: a batch of a stream, or a batch write. A commit runs in a
process of its own, which has only the settings and the messages of the tasks.

Each partition gets all of its batches of a version or none, one partition after another. Once one
partition has the version, the others may get only the batches that were decided on first: another
attempt may distribute its rows differently, so that some rows would be written twice and others not
at all. If the store cannot accept the decided batches (their files are gone, or a limit of the
topic was lowered), a new decision is made, but only if no partition has the version yet. Otherwise
`HalfCommitted` is raised, which a retry does not fix.
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
    """Some partitions have their batches of a write, and those of the other partitions cannot be
    committed.
    """

    exit_code = 65


@dataclass(frozen=True, kw_only=True)
class StagedRows(WriterCommitMessage):
    """The message of a task to the commit: which batches the task staged."""

    run: Run
    task: int
    batches: Batches = field(repr=False)


def stage(
    settings: SinkSettings, columns: dict[str, int], rows: Iterable[pa.RecordBatch], run: Run
) -> StagedRows:
    """Encodes the rows of a task and stages them for the commit. Runs in a task.

    If it fails, it removes what it staged.
    """
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
            with _logging_errors("could not remove the batches of a failed task"):
                writer.discard()
            raise
    return StagedRows(run=run, task=task, batches=batches)


def commit(settings: SinkSettings, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Commits the batches that the tasks staged, or those that an earlier attempt decided on, then
    removes all that is staged for the run.

    The topic's messages are durable when it returns. Raises `InputError` if the store refuses the
    batches and no partition has any of them, and `HalfCommitted` if some partitions have them.
    """
    staged = _staged(messages)
    if not staged:
        return  # a query without tasks has no rows
    run = _run(staged)
    with settings.staging() as staging:
        committed = _commit(settings, staging, run, _joined(staged))
        count = sum(partition.count for partition in committed if partition.is_new)
        _log.info("%s: %d messages of version %d committed", run.topic, count, run.version)
        with _logging_errors("could not remove staged batches"):
            staging.remove(run)
            staging.remove_leftovers()


def abort(settings: SinkSettings, messages: Iterable[WriterCommitMessage | None]) -> None:
    """Removes what the tasks staged, except batches that a commit has already decided on."""
    staged = _staged(messages)
    with settings.staging() as staging, _logging_errors("could not remove staged batches"):
        for message in staged:
            staging.discard(message.run, message.batches)


def hand_over(settings: SinkSettings, run: Run, batches: Batches) -> list[CommittedPartition]:
    """Commits the batches to all partitions of the topic.

    Partitions without rows are committed too, so that they ignore rows of a repeated run later.
    """
    with writing(settings.backend) as store:
        topic = store.topics.open(run.topic)
        by_partition = {number: batches.get(number, []) for number in range(topic.partition_count)}
        return topic.commit_batches(run.application, run.version, by_partition | batches)


def _commit(
    settings: SinkSettings, staging: Staging, run: Run, batches: Batches
) -> list[CommittedPartition]:
    """Commits the batches that the run first decided on, or `batches` if it has not decided yet.

    If the store refuses the decided batches and no partition has any of them, commits `batches`
    instead.
    """
    while True:
        decided = staging.decide(run, batches)
        try:
            return hand_over(settings, run, decided)
        except InputError as error:
            _check_untouched(settings, run, error)
            staging.forget(run)  # otherwise every retry would be refused
            if decided == batches:
                raise
            _log.warning(
                "%s: the batches of version %d that were decided on first cannot be committed; "
                "trying those of this attempt: %s",
                run.topic,
                run.version,
                error,
            )


def _check_untouched(settings: SinkSettings, run: Run, refusal: InputError) -> None:
    """Raises `HalfCommitted` if a partition already has this version.

    To find out, sends each partition an invalid batch. A partition that has the version ignores it
    as a repetition; a partition that does not have it refuses the batch and stays unchanged.
    """
    with writing(settings.backend) as store:
        topic = store.topics.open(run.topic)
        committed = []
        for number in range(topic.partition_count):
            with suppress(InputError):
                topic.commit_batches(run.application, run.version, {number: [b""]})
                committed.append(number)
    if committed:
        raise HalfCommitted(
            f"{run.topic}: version {run.version} of {run.application!r} is in "
            f"{len(committed)} of {topic.partition_count} partitions, and the staged batches for "
            f"the others cannot be committed: {refusal}; restore the staged batches, because rows "
            "of another attempt must not be mixed with those that are committed"
        ) from refusal


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    """Returns the tasks' messages in the order of the tasks. A task that failed has no message."""
    staged = [message for message in messages if isinstance(message, StagedRows)]
    return sorted(staged, key=lambda message: message.task)


def _run(messages: Sequence[StagedRows]) -> Run:
    runs = {message.run for message in messages}
    if len(runs) > 1:
        raise InputError(
            f"cannot commit: the messages of the tasks belong to several commits: {sorted(runs)}"
        )
    return runs.pop()


def _joined(messages: Sequence[StagedRows]) -> Batches:
    batches: Batches = {}
    for message in messages:
        for partition, of_partition in message.batches.items():
            batches.setdefault(partition, []).extend(of_partition)
    return batches


@contextmanager
def _logging_errors(what: str) -> Iterator[None]:
    """Logs errors of a cleanup in the `with` block instead of raising them.

    A later commit removes the staged batches that a failed cleanup leaves: see `remove_leftovers`.
    """
    try:
        yield
    except LakebedError as error:
        _log.warning("%s: %s", what, error)
