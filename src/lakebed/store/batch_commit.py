"""Batch commit: staged batches are handed over to a topic once, and it is safe to repeat that.

    topic.commit_batches("query 7", 41, {0: [batches], 1: [StagedFile("/stage/1")]})

A version of an application is committed to a partition as a whole, or not at all, whenever a crash
comes; and only once: the first commit of a version counts, whatever bytes a repetition brings. The
versions of an application grow. One that is not larger than the last is answered as committed.

Everything is checked before anything is changed. Then the partitions are committed one after the
other: if that ends early, some have the version and some do not, and whoever repeats the call
completes it. A partition that was interrupted half-way (the disk was full, say) is completed by
the next commit to it, or the next time the topic is opened, also if nobody repeats the call.

What may be lost: of more than 10,000 applications that commit to one partition, the last version
of the one that is longest without a commit: it would be taken for new.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from lakebed.base.errors import BadName, InputError
from lakebed.keratin.commit_file import NewCommit
from lakebed.keratin.commit_ledger import Committed
from lakebed.keratin.format import OFFSET_MAX
from lakebed.keratin.partition import Partition
from lakebed.keratin.topic import Topic
from lakebed.store.staged_batch import (
    CommittedPartition,
    ReadObject,
    Staged,
    opened,
    record_batches,
)

APPLICATION_LENGTH_MAX = 256
VERSION_MAX = OFFSET_MAX
STAGED_COUNT_MAX = 100_000  # of one commit


def commit_batches(
    topic: Topic,
    application: str,
    version: int,
    batches: Mapping[int, Sequence[Staged]],
    *,
    read_object: ReadObject | None = None,
) -> list[CommittedPartition]:
    """One for each partition, by their numbers. Durable when it returns.

    `InputError` says which partition, batch and byte is wrong, and nothing was changed.
    """
    _check_application(application)
    version = _checked_version(version)
    wanted = _partitions_to_commit(topic, batches)
    with ExitStack() as stack:
        # Always in the same order: nobody waits in a circle.
        for partition, _ in wanted:
            stack.enter_context(partition.commits.turn())
        known = {
            partition.number: partition.commits.find(application, version=version)
            for partition, _ in wanted
        }
        staged: dict[int, NewCommit] = {}
        for partition, theirs in wanted:
            if theirs and known[partition.number] is None:
                checked = _checked(partition, theirs, read_object)
                new = partition.commits.stage(application, checked, version=version)
                stack.callback(new.discard)
                staged[partition.number] = new
        fresh = {
            partition.number: partition.commits.commit(staged[partition.number])
            if partition.number in staged
            else partition.commits.commit_nothing(application, version=version)
            for partition, _ in wanted
            if known[partition.number] is None
        }
    return [_answer(partition.number, known, fresh) for partition, _ in wanted]


def _answer(
    number: int, known: Mapping[int, Committed | None], fresh: Mapping[int, Committed]
) -> CommittedPartition:
    committed = fresh.get(number) or known[number]
    assert committed is not None
    return CommittedPartition(
        number, number in fresh, committed.base_offset, committed.message_count
    )


def _checked(
    partition: Partition, theirs: Sequence[Staged], read_object: ReadObject | None
) -> Iterator[bytes]:
    """The record batches of all that is staged for a partition."""
    for index, staged in enumerate(theirs):
        where = f"partition {partition.number}, batch {index}"
        with opened(staged, disk=partition.disk, read_object=read_object, where=where) as source:
            yield from record_batches(source, config=partition.config, where=where)


def _partitions_to_commit(
    topic: Topic, batches: Mapping[int, Sequence[Staged]]
) -> list[tuple[Partition, tuple[Staged, ...]]]:
    """By the partitions' numbers; `NotFound` if there is none of one."""
    if not isinstance(batches, Mapping):
        raise InputError(f"batches: a mapping is wanted, not {type(batches).__name__}")
    wanted = []
    for key, theirs in batches.items():
        try:
            partition = topic.partition(operator.index(key))
        except TypeError:
            raise InputError(f"partition {str(key)[:40]!r}: not a number") from None
        is_one = isinstance(theirs, bytes | bytearray | memoryview | str)
        if is_one or not isinstance(theirs, Sequence):
            raise InputError(f"partition {partition.number}: a sequence of batches is wanted")
        wanted.append((partition, tuple(theirs)))
    if sum(len(theirs) for _, theirs in wanted) > STAGED_COUNT_MAX:
        raise InputError(f"more than {STAGED_COUNT_MAX} batches in one commit")
    return sorted(wanted, key=lambda pair: pair[0].number)


def _check_application(application: object) -> None:
    try:
        if not isinstance(application, str) or not application.encode():
            raise ValueError
        if len(application) > APPLICATION_LENGTH_MAX:
            raise ValueError
    except ValueError:
        raise BadName(
            f"application {str(application)[:60]!r}: a text of 1 to {APPLICATION_LENGTH_MAX} "
            "characters is wanted"
        ) from None


def _checked_version(version: int) -> int:
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        raise InputError(f"version {str(version)[:40]}: allowed are 0 to {VERSION_MAX}")
    return version
