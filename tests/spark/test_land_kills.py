"""`land` is killed while a producer goes on, at random moments: each message is in its table once.

The seed of the moments is printed; `LAKEBED_CASE` gives another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped,unused-ignore]
from pyspark.errors import PySparkException

from lakebed.spark.jobs.land import LandConfig, land
from lakebed.spark.jobs.watcher import NullWatcher
from tests.spark.lands import Lake, started_lake
from tests.spark.table_locations import BUCKET
from tests.tidy.repository import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 40  # messages of one append, of which one in ten is bad
BATCH_ROWS_MAX = 100 * BATCH  # of a micro-batch
FORMATS = ("delta", "parquet")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with started_lake(tmp_path) as started:
        yield started


class Producer:
    """Appends to the topics for as long as it is entered, in a thread of its own."""

    def __init__(self, lake: Lake, topics: tuple[str, ...], *, pause_s: float = 0.1) -> None:
        self._lake = lake
        self._topics = topics
        self._pause_s = pause_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.counts = Counter[str]()

    def _run(self) -> None:
        while not self._ends.wait(self._pause_s):
            for topic in self._topics:
                self.add(topic)

    def add(self, topic: str) -> None:
        first = self.counts[topic]
        numbers = range(first, first + BATCH)
        values = [
            b"bad %d" % number
            if number % 10 == 9
            else {"n": number, f"field{number // 1000}": "x"}  # new columns, now and then
            for number in numbers
        ]
        self._lake.add(topic, *values, partition=first // BATCH % 2)
        self.counts[topic] += BATCH

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def check(self) -> None:
        """Each message in one of both tables, and there once."""
        for topic in self._topics:
            is_delta = topic.startswith("delta")
            read = self._lake.rows if is_delta else self._lake.parquet_rows
            rows = [row["n"] for row in read(topic)]
            dead = (
                self._lake.dead_letters(topic)
                if is_delta
                else self._lake.parquet_rows(f"{topic}_dead_letters")
            )
            buried = [int(row["value"].split()[1]) for row in dead]
            assert sorted(rows + buried) == list(range(self.counts[topic])), topic
            assert all(number % 10 == 9 for number in buried)


class Driver:
    """`land_driver` in a process of its own."""

    def __init__(self, folder: Path, lake: Lake, topics: tuple[str, ...]) -> None:
        self._path = folder / "land.json"
        chosen = [
            {
                "root": str(lake.root),
                "topic": topic,
                "table": f"{BUCKET}/tables/{{name}}",
                "s3": lake.s3,
                "table_format": topic.partition("-")[0],
                "batch_rows_max": BATCH_ROWS_MAX,
                "optimize_batches": 4,
            }
            for topic in topics
        ]
        self._path.write_text(json.dumps(chosen))
        self._process: subprocess.Popen[str] | None = None
        self._java = 0

    def start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        command = [sys.executable, "-m", "tests.spark.land_driver", str(self._path)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._java = int(self.line("java").split()[1])

    def line(self, beginning: str) -> str:
        """The next one that begins so."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(beginning):
                return line
        raise AssertionError(f"the driver ended with {self._process.wait()}")

    def kill(self) -> None:
        """The driver, its Java and all Python workers, as when the machine's memory is full."""
        assert self._process is not None
        for process in (self._process.pid, *descendants(self._java), self._java):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._end()

    def kill_worker(self, random: Random) -> None:
        """One of those that have the store, or the S3, open; Spark tries again, or the job fails"""
        workers = [one for one in descendants(self._java) if is_worker(one)]
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(workers), signal.SIGKILL)

    def finish(self) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        return self._end()

    def _end(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


def descendants(process: int) -> list[int]:
    """Of a process, the nearest first."""
    found, left = [], [process]
    while left:
        for task in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(one) for one in task.read_text().split()]
                found += children
                left += children
    return found


def is_worker(process: int) -> bool:
    """A Python process of Spark's that was forked for a task, not the one that forks them."""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process}/cmdline").read_bytes()
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        parent_command = Path(f"/proc/{parent}/cmdline").read_bytes()
        return b"pyspark.daemon" in command and b"pyspark.daemon" in parent_command
    return False


def seed() -> int:
    found = int(os.environ.get("LAKEBED_CASE", "0")) or int.from_bytes(os.urandom(4))
    print(f"LAKEBED_CASE={found}")
    return found


def new_topics(lake: Lake) -> tuple[str, ...]:
    for name in FORMATS:
        lake.store.topics.create(f"{name}-t", partitions=2)
    return tuple(f"{name}-t" for name in FORMATS)


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(1800)
def test_killed_workers_and_a_killed_driver_leave_each_message_once(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    random = Random(seed())
    topics = new_topics(lake)
    driver = Driver(tmp_path, lake, topics[:1])
    driver.start()
    with Producer(lake, topics) as producer:
        driver.line("land")
        wait(random.uniform(0, 4))
        driver.kill()
        for topic in topics:
            kill_workers_while_landing(spark, configured(lake, topic), random)
    for topic in topics:
        land(spark, configured(lake, topic))
    producer.check()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(7200)
def test_twenty_kills_leave_each_message_once(lake: Lake, tmp_path: Path) -> None:
    random = Random(seed())
    topics = new_topics(lake)
    driver = Driver(tmp_path, lake, topics)
    with Producer(lake, topics, pause_s=0.2) as producer:
        for number in range(24):
            driver.start()
            for _ in range(random.randint(1, 3)):
                driver.line("land")
            if number % 3 == 2:
                wait(random.uniform(0, 4))
                driver.kill_worker(random)
            wait(random.uniform(0, 6))
            driver.kill()
            print("kill", number + 1, dict(producer.counts), flush=True)
    driver.start()
    assert driver.finish() == 0
    producer.check()


class Beginning(NullWatcher):
    """Knows when a query is about to start."""

    def __init__(self) -> None:
        self.is_landing = threading.Event()

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        if what.startswith("land"):
            self.is_landing.set()


def kill_workers_while_landing(spark: SparkSession, config: LandConfig, random: Random) -> None:
    """The session tries no task twice: the job fails, or nothing of it was in those processes."""
    jvm: Any = spark.sparkContext._jvm
    java = jvm.java.lang.ProcessHandle.current().pid()
    beginning, outcome = Beginning(), list[str]()

    def run() -> None:
        try:
            land(spark, config, beginning)
            outcome.append("done")
        except (PySparkException, Py4JJavaError):
            outcome.append("failed")

    while True:
        thread = threading.Thread(target=run)
        thread.start()
        while not beginning.is_landing.wait(1) and thread.is_alive():
            pass
        if beginning.is_landing.is_set():
            break
        # Spark gave a task to a worker that was killed before, so the job failed while it planned.
        thread.join()
        assert outcome.pop() == "failed"
    wait(random.uniform(0, 4))
    workers = [one for one in descendants(java) if is_worker(one)]
    for process in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    thread.join()
    assert outcome
    print(config.topics, len(workers), "workers killed:", *outcome)


def configured(lake: Lake, topic: str) -> LandConfig:
    return lake.config(
        topic, values="json", table_format=topic.partition("-")[0], batch_rows_max=BATCH_ROWS_MAX
    )


def wait(seconds: float) -> None:
    """A random moment is what is wanted; nothing depends on how long it takes."""
    threading.Event().wait(seconds)
