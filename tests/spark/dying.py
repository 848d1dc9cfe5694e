"""Streams into sinks whose processes are killed, as options say."""

from __future__ import annotations

import contextlib
import os
import signal
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


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


class DyingSource(DataSource):
    """To be put before a source: its streams are written by `dying`."""

    dying: ClassVar[type[DyingWriter]]

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = dict(options)
        self._fate = Fate.taken_from(taken)
        super().__init__(taken)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return self.dying(super().streamWriter(schema, overwrite), self._fate)


class DyingWriter(DataSourceStreamArrowWriter):
    """Dies in a task when its rows are written, and when all is done, but Spark does not know."""

    def __init__(self, writer: Any, fate: Fate) -> None:
        self._writer = writer
        self._fate = fate

    @abstractmethod
    def committing(self) -> AbstractContextManager[None]:
        """Around a commit: it may die at points of its own."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._writer.write(iterator)
        self._fate.die("task")
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with self.committing():
            self._writer.commit(messages, batchId)
        self._fate.die("done")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._writer.abort(messages, batchId)
