"""Batch commit: appends staged batches to a topic exactly once, even if the call is repeated.

    topic.commit_batches("query 7", 41, {0: [batches], 1: [StagedFile("/stage/1")]})

Each commit names an application and a version. A version is committed to a partition completely or
not at all, even across a crash, and only once: if a call is repeated with other batches, the first
commit counts. The versions of an application must increase. A version that is not larger than the
application's last one in a partition is reported as already committed, and nothing is appended
there.

All batches are checked before the first is appended. Then the partitions are committed one after
another. If the call ends early, some partitions may have the version and others not; repeating the
call completes it. The batches for a partition are first written to a file next to its log. If
appending them to the log is then interrupted (because the disk is full, for example), the next
commit to the partition completes it, or the next opening of the topic, even if the call is never
repeated.

What may be lost: a partition remembers the last version of up to 10,000 applications. Beyond that,
it forgets the application that has not committed for the longest time. If that application then
repeats a version, the version is appended again. If the file of an interrupted commit is damaged,
the batches that are not in the log yet are lost.
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
STAGED_COUNT_MAX = 100_000  # batches in one commit


def commit_batches(
    topic: Topic,
    application: str,
    version: int,
    batches: Mapping[int, Sequence[Staged]],
    *,
    read_object: ReadObject | None = None,
) -> list[CommittedPartition]:
    """Commits staged batches; `batches` maps partition numbers to the batches to append there.

    The commit is durable when the call returns. Returns one result for each of these partitions,
    ordered by partition number. Raises `InputError` if a batch is invalid, `TooLarge` if it is
    above the topic's limits, and `NotFound` if a partition, staged file or staged object does not
    exist; then nothing of this commit is appended, but an earlier, interrupted commit may have been
    completed. `read_object` reads staged objects; without it a `StagedObject` is refused.
    """
    _check_application(application)
    version = _checked_version(version)
    to_commit = _partitions_to_commit(topic, batches)
    with ExitStack() as stack:
        # Always locked in the same order, so that two commits cannot deadlock.
        for partition, _ in to_commit:
            stack.enter_context(partition.commits.turn())
        earlier = {
            partition.number: partition.commits.find(application, version=version)
            for partition, _ in to_commit
        }
        staged: dict[int, NewCommit] = {}
        for partition, batches_of_partition in to_commit:
            if batches_of_partition and earlier[partition.number] is None:
                checked = _checked(partition, batches_of_partition, read_object)
                new_commit = partition.commits.stage(application, checked, version=version)
                stack.callback(new_commit.discard)
                staged[partition.number] = new_commit
        fresh = {
            partition.number: partition.commits.commit(staged[partition.number])
            if partition.number in staged
            else partition.commits.commit_nothing(application, version=version)
            for partition, _ in to_commit
            if earlier[partition.number] is None
        }
    return [_answer(partition.number, earlier, fresh) for partition, _ in to_commit]


def _answer(
    number: int, earlier: Mapping[int, Committed | None], fresh: Mapping[int, Committed]
) -> CommittedPartition:
    committed = fresh.get(number) or earlier[number]
    assert committed is not None
    return CommittedPartition(
        number, number in fresh, committed.base_offset, committed.message_count
    )


def _checked(
    partition: Partition, staged_batches: Sequence[Staged], read_object: ReadObject | None
) -> Iterator[bytes]:
    """Reads and checks the batches that are staged for a partition; yields their record batches."""
    for index, staged in enumerate(staged_batches):
        place = f"partition {partition.number}, batch {index}"
        with opened(staged, disk=partition.disk, read_object=read_object, place=place) as source:
            yield from record_batches(source, config=partition.config, place=place)


def _partitions_to_commit(
    topic: Topic, batches: Mapping[int, Sequence[Staged]]
) -> list[tuple[Partition, tuple[Staged, ...]]]:
    """Returns each partition with its staged batches, ordered by partition number.

    Raises `InputError` if `batches` does not have the expected types or has too many batches, and
    `NotFound` if the topic does not have one of the partitions.
    """
    if not isinstance(batches, Mapping):
        raise InputError(
            "batches: must be a mapping from partition number to staged batches, "
            f"not {type(batches).__name__}"
        )
    to_commit = []
    for number, key in sorted((_partition_number(key), key) for key in batches):
        partition, staged = topic.partition(number), batches[key]
        is_single_batch = isinstance(staged, bytes | bytearray | memoryview | str)
        if is_single_batch or not isinstance(staged, Sequence):
            raise InputError(
                f"batches[{partition.number}]: must be a sequence of staged batches, "
                f"not {type(staged).__name__}"
            )
        to_commit.append((partition, tuple(staged)))
    if sum(len(staged) for _, staged in to_commit) > STAGED_COUNT_MAX:
        raise InputError(
            f"batches: a commit can have at most {STAGED_COUNT_MAX} staged batches in all "
            "partitions together; use several commits, each with a larger version"
        )
    return to_commit


def _partition_number(key: object) -> int:
    try:
        return operator.index(key)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(
            f"batches: the key {str(key)[:40]!r} must be a partition number, an integer"
        ) from None


def _check_application(application: object) -> None:
    try:
        if not isinstance(application, str) or not application.encode():
            raise ValueError
        if len(application) > APPLICATION_LENGTH_MAX:
            raise ValueError
    except ValueError:
        raise BadName(
            f"application {str(application)[:60]!r}: must be a valid Unicode string of 1 to "
            f"{APPLICATION_LENGTH_MAX} characters"
        ) from None


def _checked_version(version: int) -> int:
    if type(version) is not int or not 0 <= version <= VERSION_MAX:
        raise InputError(f"version {str(version)[:40]}: must be an integer from 0 to {VERSION_MAX}")
    return version
