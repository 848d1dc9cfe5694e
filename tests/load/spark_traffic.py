"""Spark beside the rest: its driver in another process lands the topic as a table, and reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.load.messages import sum_of
from tests.load.node import Node
from tests.load.topic_traffic import LAND, TopicTraffic
from tests.load.traffic import Marks, Traffic


class SparkTraffic:
    """`landed` rows so far, in so many `landings`."""

    def __init__(self, node: Node, topic: TopicTraffic, traffic: Traffic, folder: Path) -> None:
        self._topic = topic
        self._traffic = traffic
        self._log = folder / "spark.log"
        self._table: list[dict[str, Any]] | None = None
        self.landed = 0
        self.landings = 0
        self.reads = 0
        chosen = folder / "spark.json"
        chosen.write_text(json.dumps(_choices(node, folder)))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.load.spark_driver", str(chosen)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self) -> None:
        """Until it ends: then it was told to, and has told what is in the table."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            [(what, result)] = json.loads(line).items()
            getattr(self, f"_on_{what}")(result)
        assert self._process.wait() == 0, self._log.read_text()[-4000:]

    def end(self) -> None:
        """Nobody produces any more. `run` returns when the rest is landed."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.write("end\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """It may not stay behind."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """It has ended, and so has `run`."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def check(self, stored: Mapping[str, Marks]) -> int:
        """The table has each message once, with what it said; how many."""
        assert self._table is not None
        found = {row.pop("producer"): row for row in self._table}
        counts = {name: len(marks) for name, marks in stored.items() if len(marks)}
        assert found == {
            name: {"rows": count, "ids": count, "last": count - 1, "total": sum_of(name, count)}
            for name, count in counts.items()
        }
        assert self.landed == sum(counts.values())
        return self.landed

    def _on_landed(self, rows: int) -> None:
        self.landed += rows
        self.landings += 1
        self._topic.window.take(LAND, rows)

    def _on_read(self, partitions: list[dict[str, int]]) -> None:
        """Retention may have removed the first, and nothing in between."""
        for one in partitions:
            assert one["rows"] == one["last"] + 1 - one["first"], one
        self.reads += 1
        self._traffic.did()

    def _on_table(self, rows: list[dict[str, Any]]) -> None:
        self._table = rows


def _choices(node: Node, folder: Path) -> dict[str, Any]:
    keys = {"access_key": node.access_key, "secret_key": node.secret_key}
    return {
        "root": str(node.root),
        "endpoint": {"endpoint": node.http_url, **keys},
        "s3": {
            "s3Endpoint": node.url,
            "accessKey": node.access_key,
            "secretKey": node.secret_key,
            "region": node.region,
        },
        "checkpoint": str(folder / "checkpoint"),
    }
