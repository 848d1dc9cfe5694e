"""What the tests of the topic sink share: a look at what is in a topic, and writers that die."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from lakebed.spark.sinks import committing
from lakebed.spark.sources.topic import TopicSource
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store

POINTS = ("task", "staged", "decided", "committed", "done")
"""In a task when its rows are staged; before its commit; when that is decided; when the store has
it; and when all is done, but Spark does not know."""


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


class DyingSource(TopicSource):
    """A topic sink whose process is killed at a point, once.

    `killAt` is the point; `killMark` a file that says how often it is passed before, and that
    whoever is killed removes; `killAlso` the numbers of other processes, which are killed first.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = dict(options)
        self._fate = [taken.pop(name.lower(), "") for name in ("killAt", "killMark", "killAlso")]
        super().__init__(taken)

    @classmethod
    def name(cls) -> str:
        return "dying.topic"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return DyingWriter(super().streamWriter(schema, overwrite), *self._fate)


class DyingWriter(DataSourceStreamArrowWriter):
    def __init__(self, writer: Any, kill_at: str, mark: str, also: str) -> None:
        self._writer = writer
        self._kill_at = kill_at
        self._mark = mark
        self._also = also

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._writer.write(iterator)
        self._die("task")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._die("staged")
        hand_over = committing.hand_over

        def dying(*arguments: Any) -> Any:
            self._die("decided")
            found = hand_over(*arguments)
            self._die("committed")
            return found

        committing.hand_over = dying  # type: ignore[assignment]
        try:
            self._writer.commit(messages, batchId)
        finally:
            committing.hand_over = hand_over
        self._die("done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages, batchId)

    def _die(self, point: str) -> None:
        if point != self._kill_at:
            return
        mark = Path(self._mark)
        if not mark.exists():
            return
        passes = int(mark.read_text())
        if passes:
            mark.write_text(str(passes - 1))
            return
        mark.unlink()
        for process in self._also.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
