"""Rows published to a topic by a job, and what became of them: exactly once, if it has a name.

A job that has a name is one version of an application of that name: whoever starts it again gets
what the first one did. Without a name each start is another write. Either way the store is asked
afterwards where the messages are.
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
    """Where to, and how."""

    backend: Backend
    topic: str
    name: str = ""  # empty: each start is another write
    keeps_partitions: bool = False  # else by key, or by turn
    creates_topic: bool = False
    partitions: int | None = None  # of a topic that is created
    compression: str = "none"
    staging_bucket: str = ""  # with an endpoint, for more than one request can have

    def __post_init__(self) -> None:
        if self.partitions is not None and not self.creates_topic:
            raise InputError("a number of partitions is for a topic that is created")
        if self.staging_bucket and self.backend.path:
            raise InputError("a staging bucket is for a store that is reached by its endpoint")

    def check(self) -> None:
        """`NotFound` if there is no such topic, and it is not to be created."""
        _ends(self)


@dataclass(frozen=True)
class PublicationReport:
    """Of each partition that has messages of it: those that are there now, and those before."""

    now: list[CommittedPartition]
    before: list[CommittedPartition]

    @property
    def row_count(self) -> int:
        return sum(one.count for one in self.now)

    @property
    def was_done_before(self) -> bool:
        return bool(self.before) and not self.now

    def facts(self) -> dict[str, object]:
        every = sorted((*self.before, *self.now), key=lambda part: part.partition)
        return {
            "done_before": self.was_done_before,
            "messages": sum(one.count for one in every),
            "first_offsets": {str(one.partition): one.base_offset for one in every},
        }


def publish(frame: DataFrame, to: Publication, *, job: str) -> PublicationReport:
    """All rows of the frame, a partition's at once. Columns that a topic has not are left out."""
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
    """Where what is written next begins, at the earliest; `NotFound` if there is no such topic."""
    with to.backend.open() as store:
        try:
            topic = store.topics.open(to.topic)
        except NotFound as error:
            if to.creates_topic:
                return {}
            raise NotFound(f"{error}, and it is not to be created") from None
        return {number: bounds.end for number, bounds in enumerate(topic.bounds())}


def _published(to: Publication, application: str, ends: dict[int, int]) -> PublicationReport:
    """What the store says when the commit is repeated: without rows, for it has them."""
    with writing(to.backend) as store:
        topic = store.topics.open(to.topic)
        nothing: dict[int, tuple[()]] = dict.fromkeys(range(topic.partition_count), ())
        answers = topic.commit_batches(application, VERSION, nothing)
    published = PublicationReport([], [])
    for one in answers:
        if one.count:
            is_old = (one.base_offset or 0) < ends.get(one.partition, 0)
            (published.before if is_old else published.now).append(one)
    return published
