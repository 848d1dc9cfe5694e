"""The process that is killed: callers append batches of records to a few files, until the end.

    python -c 'from lakebed.node.demo.writer import main; main("FOLDER")'

Each line on standard output is one acknowledged batch, written only after its commit returned:
the file's number, the caller's, the batch's, its offset in the file and its length in bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from lakebed.base.commit import Barrier, FileTail
from lakebed.base.layout import Buffer
from lakebed.base.runner import Runner, ThreadRunner
from lakebed.base.units import MIB
from lakebed.kernels import aof_encode
from lakebed.kernels.disk import real_disk

FILE_COUNT = 2
CALLER_COUNT = 8
BATCH_COUNT = 100  # records of a batch
FILE_BYTES = 64 * MIB


class Acknowledgement(NamedTuple):
    """One line of the ledger."""

    file: int
    caller: int
    batch: int
    offset: int
    length: int

    def line(self) -> bytes:
        return b"%d %d %d %d %d\n" % self

    @classmethod
    def parse(cls, line: bytes) -> Acknowledgement | None:
        """None for a line that was cut off by the kill."""
        words = line.split()
        if not line.endswith(b"\n") or len(words) != len(cls._fields):
            return None
        return cls(*map(int, words))


def payload(file: int, caller: int, batch: int, index: int) -> bytes:
    """A hundred bytes that say which record this is."""
    return (b"file %d caller %d batch %d record %d " % (file, caller, batch, index)).ljust(
        100, b"."
    )


def file_path(folder: str | Path, number: int) -> str:
    return str(Path(folder) / f"{number:020}.seg")


def encode_batch(file: int, caller: int, batch: int, timestamp: int) -> bytes | bytearray:
    payloads = [payload(file, caller, batch, index) for index in range(BATCH_COUNT)]
    return aof_encode(payloads, timestamps=timestamp, ext_ids=0, capacity=1 << 32).data


def main(folder: str) -> None:
    with ExitStack() as stack:
        runner = stack.enter_context(ThreadRunner())
        disk = real_disk()
        for number in range(FILE_COUNT):
            file = stack.enter_context(disk.create(file_path(folder, number)))
            file.zero_fill(0, FILE_BYTES)
            file.sync()
            barrier: Barrier[Buffer, int] = Barrier(
                FileTail(file, end=0), name=file.path, runner=runner, wake=lambda: None
            )
            for caller in range(CALLER_COUNT):
                runner.spawn(f"caller {caller}", _caller(barrier, runner, number, caller))
        disk.sync_folder(folder)
        sys.stdin.read()  # until whoever started us is done with us


def _caller(
    barrier: Barrier[Buffer, int], runner: Runner, file: int, caller: int
) -> Callable[[], int | None]:
    batch = 0

    def step() -> int | None:
        nonlocal batch
        data = encode_batch(file, caller, batch, runner.clock.wall_ns())
        offset = barrier.commit(data, size=len(data))
        if offset + 2 * CALLER_COUNT * len(data) > FILE_BYTES:
            return None
        sys.stdout.buffer.write(Acknowledgement(file, caller, batch, offset, len(data)).line())
        sys.stdout.buffer.flush()
        batch += 1
        return 0

    return step
