"""Topics after a kill -9: how long until each of four partitions acknowledges a message again.

A program has the store open and serves its socket; another produces through `lakebed.connect`, so
every message names its producer; then the first one is killed. A run opens a copy of what it left
and appends a message to each partition. Closing it and copying the next one is not timed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from bench.aof_stores import SCRATCH, scratch_folder
from bench.row import Contestant, Row, Run
from lakebed.client.store import RemoteStore
from lakebed.host.store import Store

TOPIC = "orders"
PARTITIONS = 4
PAYLOAD_BYTES = 100
BATCH_COUNT = 1000
_SERVING = """
import sys
from lakebed.host.store import Store
store = Store.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How much there is to recover."""

    message_count: int = 1_070_000
    scratch: Path = SCRATCH

    @property
    def few_count(self) -> int:
        return self.message_count // 4


def rows(work: Work | None = None) -> Iterator[Row]:
    work = work or Work()
    few, many = f"{work.few_count:,} messages", f"{work.message_count:,} messages"
    yield Row(
        name="topics/recover after kill -9/100 B",
        unit="recoveries",
        baseline=few,
        note=f"{PARTITIONS} partitions, produced through a socket; opened, and a message "
        "acknowledged by each; scanned: without the checkpoints",
        contestants=[
            Contestant(few, partial(recovering, work, work.few_count)),
            Contestant(many, partial(recovering, work, work.message_count)),
            Contestant(
                f"{many}, scanned", partial(recovering, work, work.message_count, scans=True)
            ),
        ],
        burst_rest_s=0,
    )


class Recovery:
    """A run; see `Resting`."""

    def __init__(self, killed: Path, folder: Path) -> None:
        self._killed = killed
        self._folder = folder
        self._store: Store | None = None
        self._number = count()
        self.rest()

    def __call__(self) -> float:
        if self._store is not None:
            self.rest()  # the warm-up was a run, too
        self._store = Store.open(self._root)
        topic = self._store.topic(TOPIC)
        futures = [topic.append_batch([b"next"], partition=one) for one in range(PARTITIONS)]
        for future in futures:
            future.result()
        return 1.0

    def rest(self) -> None:
        if self._store is not None:
            self.close()
        self._root = self._folder / str(next(self._number))
        shutil.copytree(self._killed, self._root, ignore=shutil.ignore_patterns("*.sock"))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
            shutil.rmtree(self._root)


@contextmanager
def recovering(work: Work, message_count: int, *, scans: bool = False) -> Iterator[Run]:
    with scratch_folder(work.scratch) as folder:
        killed = folder / "killed"
        produce_and_kill(killed, message_count)
        if scans:
            for checkpoint in killed.glob("topics/*/*/checkpoint"):
                checkpoint.unlink()
        recovery = Recovery(killed, folder)
        try:
            yield recovery
        finally:
            recovery.close()


def produce_and_kill(root: Path, message_count: int) -> None:
    """Leave in `root` what a writer had that was killed with so many messages acknowledged."""
    command = [sys.executable, "-c", _SERVING, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            with RemoteStore.open(root) as store:
                topic = store.topics.create(TOPIC, partitions=PARTITIONS)
                payloads = [bytes(PAYLOAD_BYTES)] * BATCH_COUNT
                for number in range(message_count // BATCH_COUNT):
                    topic.append_batch(payloads, partition=number % PARTITIONS).result()
        finally:
            process.kill()
