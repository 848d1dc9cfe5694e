"""Divides the files of a table into a few large splits of about equal bytes. Does no I/O.

A file that is larger than a split is divided among several splits. Each split reads the row groups
that start within its range of bytes, so every row group is read exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.base.units import MIB
from lakebed.spark.tables.snapshot import DataFile

SPLIT_BYTES = 64 * MIB
FILE_COST_BYTES = MIB  # cost of opening a file, as bytes


@dataclass(frozen=True)
class FilePart:
    """The row groups of a file that start at the byte positions `[start, end)`."""

    file: DataFile
    start: int
    end: int


def splits_of(files: Iterable[DataFile], *, split_bytes: int = SPLIT_BYTES) -> list[list[FilePart]]:
    """Assigns the files, in order, to splits of about `split_bytes`; returns the parts of each
    split.

    No split is empty.
    """
    splits: list[list[FilePart]] = []
    filled = split_bytes
    for file in files:
        for part in _parts(file, split_bytes):
            cost = part.end - part.start + FILE_COST_BYTES
            if not splits or filled + cost > split_bytes + FILE_COST_BYTES:
                splits.append([])
                filled = 0
            splits[-1].append(part)
            filled += cost
    return splits


def _parts(file: DataFile, split_bytes: int) -> Iterable[FilePart]:
    size = max(file.size_bytes, 1)
    count = -(-size // split_bytes)
    step = -(-size // count)
    for start in range(0, size, step):
        yield FilePart(file, start, min(start + step, size))
