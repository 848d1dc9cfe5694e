"""What the tests of the topic sink share: a look at what is in a topic, and writers that die."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lakebed.spark.sinks import committing
from lakebed.spark.sinks.settings import SinkSettings, writing
from lakebed.spark.sources.topic import TopicSource
from lakebed.spark.staging import Batches, Run
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store

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


class Fate(NamedTuple):
    """Where a process is killed, once, as options say.

    `killAt` is the point; `killMark` a file that says how often it is passed before, and that
    whoever is killed removes; `killAlso` the numbers of other processes, which are killed first.
    """

    kill_at: str
    mark: str
    also: str

    @classmethod
    def taken_from(cls, options: dict[str, str]) -> Fate:
        return cls(*(options.pop(name.lower(), "") for name in ("killAt", "killMark", "killAlso")))

    def die(self, point: str, before: Callable[[], object] | None = None) -> None:
        """If it is time; then `before` is the last that is done."""
        mark = Path(self.mark)
        if point != self.kill_at or not mark.exists():
            return
        passes = int(mark.read_text())
        if passes:
            mark.write_text(str(passes - 1))
            return
        if before is not None:
            before()
        mark.unlink()
        for process in self.also.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingSource(TopicSource):
    """A topic sink whose process is killed, as its fate says."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = dict(options)
        self._fate = Fate.taken_from(taken)
        super().__init__(taken)

    @classmethod
    def name(cls) -> str:
        return "dying.topic"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return DyingWriter(super().streamWriter(schema, overwrite), self._fate)


class DyingWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Any, fate: Fate) -> None:
        self._writer = writer
        self._fate = fate

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._writer.write(iterator)
        self._fate.die("task")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._fate.die("staged")
        hand_over = committing.hand_over

        def dying(settings: SinkSettings, run: Run, batches: Batches) -> Any:
            self._fate.die("decided")
            self._fate.die("half", lambda: commit_one(settings, run, batches))
            found = hand_over(settings, run, batches)
            self._fate.die("committed")
            return found

        committing.hand_over = dying
        try:
            self._writer.commit(messages, batchId)
        finally:
            committing.hand_over = hand_over
        self._fate.die("done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages, batchId)


def commit_one(settings: SinkSettings, run: Run, batches: Batches) -> None:
    """To one partition that has messages: what a commit leaves that is killed half-way."""
    number = min(batches)
    with writing(settings.place) as store:
        topic = store.topics.open(run.topic)
        topic.commit_batches(run.application, run.version, {number: batches[number]})
