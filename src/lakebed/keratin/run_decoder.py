"""Decodes the messages in a run: those of plain records, and those inside batch records.

Control records are not messages. A batch record that cannot be decoded counts as damage even if the
checksum of its record is right, which means that it was already malformed when it was written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from lakebed.base.errors import Corrupt, DataError, TooLarge
from lakebed.keratin.damage import DamagePolicy, SkippedRange
from lakebed.keratin.decoded_batch import DecodedBatch
from lakebed.keratin.format import RecordFlags
from lakebed.keratin.message_batch import MessageBatch, PackedMessages, PlainMessages
from lakebed.keratin.record_batch import decode
from lakebed.keratin.run import Run

_CONTROL = int(RecordFlags.CONTROL)  # plain numbers: operations on enum flags are slow
_SPECIAL = _CONTROL | int(RecordFlags.BATCH)


def batches_of(
    run: Run, *, start: int, end: int, path: str, policy: DamagePolicy
) -> Iterator[MessageBatch]:
    """Yields the messages of the run with offsets in `[start, end)`, as batches.

    `policy` decides whether a batch record that cannot be decoded raises `Corrupt` or is skipped.
    Raises `CodecMissing` in either case if the codec of a batch record is not installed.
    """
    for first, last in _stretches(run):
        flags = run.flags[first]
        batch: MessageBatch | None = None
        if not flags & _SPECIAL:
            batch = PlainMessages(run.part(first, last), path=path)
        elif not flags & _CONTROL:
            batch = _opened(run, first, path, policy)
        if batch is not None:
            batch = within(batch, start, end)
        if batch is not None:
            yield batch


def within(batch: MessageBatch, start: int, end: int) -> MessageBatch | None:
    """Returns the batch's messages with offsets in `[start, end)`, or None if there are none."""
    first, last = 0, len(batch)
    if batch.offsets[0] < start:
        first = bisect_left(batch.offsets, start)
    if batch.offsets[-1] >= end:
        last = bisect_left(batch.offsets, end)
    if first >= last:
        return None
    return batch if last - first == len(batch) else batch.part(first, last)


def open_batch(run: Run, index: int, *, path: str) -> DecodedBatch:
    """Decodes the batch record at `index`.

    Raises `Corrupt` if it cannot be decoded, and `CodecMissing` if its codec is not installed.
    """
    start = run.origin + int(run.positions[index])
    try:
        batch = decode(run.payload(index), has_gaps=True, path=path, start=start)
    except (DataError, TooLarge) as error:
        raise Corrupt(
            f"a batch record cannot be decoded ({error})", path=path, offset=start
        ) from error
    if batch.header.first_offset != run.offsets[index]:
        raise Corrupt(
            "the first offset in a batch's header differs from the offset of its record",
            path=path,
            offset=start,
            expected=int(run.offsets[index]),
            found=batch.header.first_offset,
        )
    return batch


def _opened(run: Run, index: int, path: str, policy: DamagePolicy) -> MessageBatch | None:
    try:
        batch = open_batch(run, index, path=path)
    except Corrupt as error:
        whole = run.part(index, index + 1)
        policy.report(
            SkippedRange(
                path, whole.start, whole.end, int(whole.offsets[0]), whole.next_offset, error
            )
        )
        return None
    is_control = batch.record_flags & RecordFlags.CONTROL
    return None if is_control or not len(batch) else PackedMessages(batch)


def _stretches(run: Run) -> Iterator[tuple[int, int]]:
    """Yields index ranges of records that are decoded together.

    Each control record and each batch record has a range of its own.
    """
    count = run.record_count
    if not _has_special(run):
        yield 0, count
        return
    first = 0
    for index, flags in enumerate(run.flags):
        if flags & _SPECIAL:
            if first < index:
                yield first, index
            yield index, index + 1
            first = index + 1
    if first < count:
        yield first, count


def _has_special(run: Run) -> bool:
    flags = run.flags
    if flags.tobytes() == bytes(flags.nbytes):
        return False
    return any(record_flags & _SPECIAL for record_flags in set(flags))
