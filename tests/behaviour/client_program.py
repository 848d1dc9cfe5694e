"""A program that uses the store of another one, until it is told to end.

    python -m tests.behaviour.client_program ROOT LEDGER BEATS RETRY_S ROLE

As a producer it appends, batch by batch, values that nobody else has. As a consumer it leases and
acks. What it was told goes to its ledger, a line each, written through to the disk before it goes
on. While the writer is gone it gets `Unreachable`, notes that, and goes on: what it asked for last
may have been done, or not.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakebed
from lakebed.api.problems import Unreachable
from lakebed.client.group import RemoteGroup
from lakebed.client.store import RemoteStore
from lakebed.client.topic import RemoteTopic
from lakebed.stroma.errors import StaleLease

LEASE_MS = 2_000


class Ledger:
    """Of one process; the lines of one that was killed are kept."""

    def __init__(self, path: Path, beats: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._beats = beats

    def note(self, what: str, facts: object) -> None:
        line = json.dumps([what, time.monotonic_ns(), facts])
        os.write(self._descriptor, line.encode() + b"\n")
        os.fdatasync(self._descriptor)
        if what in ("sent", "acked"):
            os.write(self._beats, b".")


def entries(path: Path) -> Iterator[tuple[str, int, Any]]:
    """A line that a kill cut short is none."""
    for line in path.read_text().split("\n")[:-1]:
        what, at_ns, facts = json.loads(line)
        yield what, at_ns, facts


def is_told_to_end() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def produce(topic: RemoteTopic, ledger: Ledger) -> None:
    for number in itertools.count():
        if is_told_to_end():
            return
        values = [f"client {os.getpid()} {number} {one}" for one in range(1 + number % 3)]
        ledger.note("sends", values)
        try:
            topic.append_batch([value.encode() for value in values]).result()
        except Unreachable as error:
            ledger.note("unreachable", str(error))
        else:
            ledger.note("sent", values)


def consume(group: RemoteGroup, ledger: Ledger) -> None:
    while not is_told_to_end():
        ledger.note("leases", None)
        try:
            leased = group.lease(max_messages=3, lease_ms=LEASE_MS, wait_s=0.2)
            places = [(one.partition, one.offset) for one in leased]
            ledger.note("leased", places)
            group.ack_all(leased)
        except Unreachable as error:
            ledger.note("unreachable", str(error))
        except StaleLease:
            pass
        else:
            ledger.note("acked", places)


def main(root: Path, ledger_path: Path, beats: int, retry_s: float, role: str) -> None:
    with contextlib.closing(lakebed.connect(root, retry_s=retry_s)) as store:
        assert isinstance(store, RemoteStore), "the writer has it"
        ledger = Ledger(ledger_path, beats)
        topic = store.topic("orders", partitions=2)
        group = topic.group("g")
        print("ready", flush=True)  # from here on the writer may be killed
        if role == "producer":
            produce(topic, ledger)
        else:
            consume(group, ledger)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
