"""Decodes raw records from another process, in the format that `PartitionReader.fetch` returns.

The bytes are not trusted: every checksum is verified, and offsets must rise.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakebed.base.errors import Corrupt
from lakebed.base.layout import Buffer
from lakebed.keratin.damage import DamagePolicy
from lakebed.keratin.format import OFFSET_MAX, RECORD_OVERHEAD
from lakebed.keratin.log_bytes import OUT_OF_ORDER, PROBLEMS
from lakebed.keratin.message_batch import MessageBatch
from lakebed.keratin.run import Run, run_of
from lakebed.keratin.run_decoder import batches_of
from lakebed.kernels import keratin_scan

_STRICT = DamagePolicy(skip=False)


def run_in(data: Buffer, *, name: str) -> Run | None:
    """Returns the records in `data`, or None if `data` is empty.

    Raises `Corrupt`, with `name` as the path, unless the bytes are contiguous whole records with
    right checksums and rising offsets.
    """
    view = memoryview(data).toreadonly().cast("B")
    if not len(view):
        return None
    scan = keratin_scan(view, 0, len(view), count_max=len(view) // RECORD_OVERHEAD + 1)
    if scan.end != len(view):
        raise Corrupt(PROBLEMS[scan.stop], path=name, offset=scan.end)
    run = run_of(scan, view, 0)
    good = run.in_order_count(0, OFFSET_MAX + 1)
    if good != run.record_count:
        raise Corrupt(OUT_OF_ORDER, path=name, offset=int(run.positions[good]))
    return run


def batches_in(data: Buffer, *, start: int, end: int, name: str) -> Iterator[MessageBatch]:
    """Yields the messages in `data` with offsets in `[start, end)`.

    Raises `Corrupt` like `run_in`, and also if a batch record cannot be decoded. Raises
    `CodecMissing` if the codec of a batch record is not installed.
    """
    run = run_in(data, name=name)
    if run is not None:
        yield from batches_of(run, start=start, end=end, path=name, policy=_STRICT)
