"""Publishes the rows of a Spark frame to a topic, and reports their offsets.

A publication that has a name happens exactly once: a job that is started again with the same name
completes the first run if that was interrupted, and publishes nothing else; its report includes the
messages of the first run. Without a name, each start publishes the rows again. In both cases the
reported offsets come from the store, which is queried after the write.
"""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING

from lakebed.base.errors import InputError, NotFound
from lakebed.spark.backends import Backend, backend_options
from lakebed.spark.sinks.settings import writing
from lakebed.store.staged_batch import CommittedPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VERSION = 1

_COLUMNS = ("value", "key", "timestamp", "headers")


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The topic to which a job publishes rows, and the settings of the write."""

    backend: Backend
    topic: str
    name: str = ""  # if empty, each start of the job publishes again
    keeps_partitions: bool = False  # otherwise by key; rows without a key are spread out
    creates_topic: bool = False
    partitions: int | None = None  # only for a topic that is created
    compression: str = "none"
    staging_bucket: str = ""  # with an endpoint, for batches too large for one request

    def __post_init__(self) -> None:
        if self.partitions is not None and not self.creates_topic:
            raise InputError(
                "the number of partitions can only be set together with the option to create "
                "the topic"
            )
        if self.staging_bucket and self.backend.path:
            raise InputError(
                "a staging bucket can only be set for a store given as an endpoint, not as a path"
            )

    def check(self) -> None:
        """Raises `NotFound` if the topic does not exist and the publication does not create it."""
        _ends(self)


@dataclass(frozen=True)
class PublicationReport:
    """Where the published messages are: `now` lists what this run wrote to each partition, and
    `before` what an earlier run of the same name wrote.
    """

    now: list[CommittedPartition]
    before: list[CommittedPartition]

    @property
    def row_count(self) -> int:
        return sum(partition.count for partition in self.now)

    @property
    def was_done_before(self) -> bool:
        return bool(self.before) and not self.now

    def facts(self) -> dict[str, object]:
        partitions = sorted((*self.before, *self.now), key=lambda part: part.partition)
        return {
            "done_before": self.was_done_before,
            "messages": sum(partition.count for partition in partitions),
            "first_offsets": {
                str(partition.partition): partition.base_offset for partition in partitions
            },
        }


def publish(frame: DataFrame, to: Publication, *, job: str) -> PublicationReport:
    """Publishes all rows of the frame; the rows of each partition appear in one write.

    Columns that messages do not have are dropped, and so is `partition` unless the publication
    keeps partitions. `job` is the name of the job; together with the name of the publication it
    identifies the write.
    """
    application = f"{job} {to.name}" if to.name else f"{job} {token_hex(16)}"
    ends = _ends(to)
    columns = [name for name in _COLUMNS if name in frame.columns]
    if to.keeps_partitions and "partition" in frame.columns:
        columns.append("partition")
    options = backend_options(to.backend) | {
        "topic": to.topic,
        "txnAppId": application,
        "txnVersion": str(VERSION),
        "compression": to.compression,
    }
    if to.creates_topic:
        options["createTopic"] = "true"
    if to.partitions is not None:
        options["partitions"] = str(to.partitions)
    if to.staging_bucket:
        options["stagingBucket"] = to.staging_bucket
    frame.select(*columns).write.format("lakebed.topic").mode("append").options(**options).save()
    return _published(to, application, ends)


def _ends(to: Publication) -> dict[int, int]:
    """Returns the current end offset of each partition, or an empty dictionary if the
    topic does not exist yet.

    Raises `NotFound` if the topic does not exist and the publication does not create it.
    """
    with to.backend.open() as store:
        try:
            topic = store.topics.open(to.topic)
        except NotFound as error:
            if to.creates_topic:
                return {}
            raise NotFound(f"{error}, and the job was not asked to create it") from None
        return {number: bounds.end for number, bounds in enumerate(topic.bounds())}


def _published(to: Publication, application: str, ends: dict[int, int]) -> PublicationReport:
    """Returns where the messages of the publication are.

    To find out, repeats the commit without rows: the store then returns the result of the first
    commit. `ends` are the end offsets of the partitions before the write; messages with smaller
    offsets are from an earlier run.
    """
    with writing(to.backend) as store:
        topic = store.topics.open(to.topic)
        no_batches: dict[int, tuple[()]] = dict.fromkeys(range(topic.partition_count), ())
        partitions = topic.commit_batches(application, VERSION, no_batches)
    published = PublicationReport([], [])
    for partition in partitions:
        if partition.count:
            is_old = (partition.base_offset or 0) < ends.get(partition.partition, 0)
            (published.before if is_old else published.now).append(partition)
    return published
