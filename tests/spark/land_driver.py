"""A program that lands topics and is killed: run by `test_land_kills`, in a process of its own.

    python -m tests.spark.land_driver CONFIGS

The document CONFIGS says what to land. A line on standard output says which process Java is, and
another one whenever a query is started: it lands what is there, one topic after the other, time and
again, until a line on standard input comes, and once more after that.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

from lakebed.spark.backends import Backend
from lakebed.spark.jobs.land import LandConfig, land
from lakebed.spark.session import session


class Telling:
    """Each part that begins is a line."""

    def begin(self, what: str, *, total: int = 0, unit: str = "rows") -> None:
        print(what, flush=True)

    def advance(self, done: int, *, size_bytes: int = 0) -> None: ...

    def report_line(self, text: str) -> None: ...


def main(path: str) -> None:
    configs = [config_of(one) for one in json.loads(Path(path).read_text())]
    spark = session(master="local[2,4]")
    jvm: Any = spark.sparkContext._jvm
    print(f"java {jvm.java.lang.ProcessHandle.current().pid()}", flush=True)
    is_ending = threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        is_ending.set()

    threading.Thread(target=wait, daemon=True).start()
    is_last = False
    while not is_last:
        is_last = is_ending.is_set()
        for config in configs:
            land(spark, config, Telling())
    spark.stop()


def config_of(chosen: dict[str, Any]) -> LandConfig:
    source = Backend(path=chosen.pop("root"))
    return LandConfig(source=source, topics=(chosen.pop("topic"),), values="json", **chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
