"""What the tests of the topic sink share: a look at what is in a topic, and writers that die."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakebed.host.store import Store
from lakebed.spark.sinks import staged_commit
from lakebed.spark.sinks.settings import SinkSettings, writing
from lakebed.spark.sources.topic import TopicSource
from lakebed.spark.staging import Batches, Run
from lakebed.store.read_only import ReadOnlyStore
from tests.spark.dying import DyingSource, DyingWriter

POINTS = ("task", "staged", "decided", "half", "committed", "done")
"""In a task when its rows are staged; before its commit; when that is decided; when one partition
has it; when the store has it; and when all is done, but Spark does not know."""

BY_CHANCE = "cast(floor(rand() * 3) as int) partition"
"""A column that is another one whenever a batch is computed again: of three partitions."""


def values(root: Path, topic: str) -> list[list[bytes | None]]:
    """Of each partition, in their order."""
    with ReadOnlyStore(root) as store:
        partitions = store.topic(topic).partitions
        return [[one.value for one in each.scan_from(0)] for each in partitions]


def all_values(root: Path, topic: str) -> list[bytes | None]:
    return sorted(one for each in values(root, topic) for one in each)  # type: ignore[type-var]


def make_topic(root: Path, name: str, partitions: int = 1, **settings: object) -> None:
    with Store.open(root) as store:
        store.topics.create(name, partitions=partitions, settings=settings)


def staged_names(root: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return [name for name in os.listdir(root / "staging") if name != "lock"]
    return []


class DyingTopicWriter(DyingWriter):
    @contextlib.contextmanager
    def staged_commit(self) -> Iterator[None]:
        self._fate.die("staged")
        hand_over = staged_commit.hand_over

        def dying(settings: SinkSettings, run: Run, batches: Batches) -> Any:
            self._fate.die("decided")
            self._fate.die("half", lambda: commit_one(settings, run, batches))
            found = hand_over(settings, run, batches)
            self._fate.die("committed")
            return found

        staged_commit.hand_over = dying
        try:
            yield
        finally:
            staged_commit.hand_over = hand_over


class DyingTopic(DyingSource, TopicSource):
    dying = DyingTopicWriter

    @classmethod
    def name(cls) -> str:
        return "dying.topic"


def commit_one(settings: SinkSettings, run: Run, batches: Batches) -> None:
    """To one partition that has messages: what a commit leaves that is killed half-way."""
    number = min(batches)
    with writing(settings.backend) as store:
        topic = store.topics.open(run.topic)
        topic.commit_batches(run.application, run.version, {number: batches[number]})
