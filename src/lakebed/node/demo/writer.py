"""The process that is killed: callers append batches of records to two logs, until the end.

    python -c 'from lakebed.node.demo.writer import main; main("ROOT")'

Each line on standard output is one acknowledged batch, written only after its flush returned: the
log's number, the caller's, the batch's, and the ids of its first and last record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

from lakebed.aof.errors import WouldBlock
from lakebed.aof.log import Aof
from lakebed.aof.record_id import RecordId
from lakebed.base.runner import ThreadRunner
from lakebed.store.store import Store

LOG_COUNT = 2
CALLER_COUNT = 8
BATCH_COUNT = 100  # records of a batch


class Acknowledgement(NamedTuple):
    """One line of the ledger."""

    log: int
    caller: int
    batch: int
    first: int
    last: int

    def line(self) -> bytes:
        return b"%d %d %d %d %d\n" % self

    @classmethod
    def parse(cls, line: bytes) -> Acknowledgement | None:
        """None for a line that was cut off by the kill."""
        words = line.split()
        if not line.endswith(b"\n") or len(words) != len(cls._fields):
            return None
        return cls(*map(int, words))


def log_name(number: int) -> str:
    return f"demo-{number}"


def payload(log: int, caller: int, batch: int, index: int) -> bytes:
    """A hundred bytes that say which record this is."""
    return (b"log %d caller %d batch %d record %d " % (log, caller, batch, index)).ljust(100, b".")


def append_batch(log: Aof, number: int, caller: int, batch: int) -> Acknowledgement | None:
    """Append a batch and make it durable; None if it would have had to wait for a segment."""
    payloads = [payload(number, caller, batch, index) for index in range(BATCH_COUNT)]
    try:
        ids = log.append_records(payloads, ext_ids=caller)
    except WouldBlock:
        log.wait_for_writable_segment(30)
        return None
    log.flush(ids[-1])
    return Acknowledgement(number, caller, batch, ids[0], ids[-1])


def main(root: str) -> None:
    with Store.open(root) as store, ThreadRunner() as runner:
        for number in range(LOG_COUNT):
            log = store.log(log_name(number))
            for caller in range(CALLER_COUNT):
                runner.spawn(f"caller {caller}", _caller(log, number, caller))
        sys.stdin.read()  # until whoever started us is done with us


def _caller(log: Aof, number: int, caller: int) -> Callable[[], int | None]:
    batch = 0

    def step() -> int | None:
        nonlocal batch
        done = append_batch(log, number, caller, batch)
        if done is not None:
            sys.stdout.buffer.write(done.line())
            sys.stdout.buffer.flush()
        batch += 1
        return 0

    return step


def first_id(entry: Acknowledgement) -> RecordId:
    return RecordId(entry.first)
