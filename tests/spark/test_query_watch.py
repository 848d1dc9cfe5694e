"""How far a query is: shares of a total, by tasks."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakebed.spark.query_watch import ProgressShare, Tasks, is_remote, watched
from tests.spark.watchers import KeepingWatcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_tasks_are_like_shares_and_never_go_back() -> None:
    watcher = KeepingWatcher()
    share = ProgressShare(watcher, total=1000, size_bytes=500)
    for done, total in ((0, 0), (0, 4), (1, 4), (1, 4), (3, 8), (1, 100), (4, 4)):
        share.report(Tasks(done, total))
    assert watcher.advances == [(250, 125), (375, 187), (1000, 500)]


class ReleasingWatcher(KeepingWatcher):
    """Tasks that wait for its gate go on when something was told."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = socket.create_server(("127.0.0.1", 0), backlog=16)

    def advance(self, done: int, *, size_bytes: int = 0) -> None:
        super().advance(done, size_bytes=size_bytes)
        self.gate.close()  # and with it what waits to be let in


@pytest.mark.spark
def test_a_query_that_runs_tells_of_its_tasks(spark: SparkSession) -> None:
    watcher = ReleasingWatcher()
    address = watcher.gate.getsockname()

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column(0)[0].as_py() > 0:
                with contextlib.suppress(OSError), socket.create_connection(address) as gate:
                    gate.recv(1)
            yield batch

    assert not is_remote(spark)
    with watched(spark, watcher, "x", total=1000, size_bytes=10, unit="things"):
        spark.range(0, 4, 1, 4).mapInArrow(wait, "id long").collect()
    assert watcher.began == [("x", 1000, "things")]
    assert watcher.advances[0] == (250, 2)
    assert watcher.advances[-1] == (1000, 10)
    assert watcher.advances == sorted(watcher.advances)


@pytest.mark.spark
def test_what_fails_is_not_told_to_be_done(spark: SparkSession) -> None:
    watcher = KeepingWatcher()
    with pytest.raises(RuntimeError), watched(spark, watcher, "x", total=10):
        raise RuntimeError("it failed")
    assert watcher.advances == []
