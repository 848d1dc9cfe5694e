"""The messages in a run of records: plain ones as they stand, those of batch records opened.

Control records are not messages. A batch record that cannot be opened is damage, although its own
checksum is right: somebody wrote it so.
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

_CONTROL = int(RecordFlags.CONTROL)  # plain numbers: flags of an enumeration are slow
_SPECIAL = _CONTROL | int(RecordFlags.BATCH)


def batches_of(
    run: Run, *, start: int, end: int, path: str, policy: DamagePolicy
) -> Iterator[MessageBatch]:
    """The messages of the run with offsets in `[start, end)`."""
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
    """The messages with offsets in `[start, end)`; None if there are none."""
    first, last = 0, len(batch)
    if batch.offsets[0] < start:
        first = bisect_left(batch.offsets, start)
    if batch.offsets[-1] >= end:
        last = bisect_left(batch.offsets, end)
    if first >= last:
        return None
    return batch if last - first == len(batch) else batch.part(first, last)


def open_batch(run: Run, index: int, *, path: str) -> DecodedBatch:
    """The messages of a batch record. `Corrupt` if it is not one that can be opened."""
    start = run.origin + int(run.positions[index])
    try:
        batch = decode(run.payload(index), has_gaps=True, path=path, start=start)
    except (DataError, TooLarge) as error:
        raise Corrupt(
            f"a batch that cannot be opened ({error})", path=path, offset=start
        ) from error
    if batch.header.first_offset != run.offsets[index]:
        raise Corrupt(
            "a batch that belongs elsewhere",
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
    """Records that are treated alike: each special one alone."""
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
    return any(one & _SPECIAL for one in set(flags))
