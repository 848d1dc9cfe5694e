"""Where the keys, values and headers of a batch's messages stand: columns over one buffer.

Only what is asked for is looked for. A headers block that is none is met by who asks for keys or
headers, and raises what reading its message raises.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from lakebed.base.errors import TooLarge
from lakebed.keratin.decoded_batch import DecodedBatch
from lakebed.keratin.message_batch import MessageBatch, PackedMessages, PlainMessages
from lakebed.kernels import keratin_fields, record_batch_headers
from lakebed.kernels.arguments import I32_MAX
from lakebed.kernels.format import KERATIN_RECORD, KERATIN_TOMBSTONE
from lakebed.kernels.results import BatchStop, BlockStop, Column


class Slices(NamedTuple):
    """Of the buffer; a negative length is a null."""

    positions: Column
    lengths: Column


class Headers(NamedTuple):
    """Those of all messages one behind the other, and how many each message has."""

    counts: Column
    names: Slices
    values: Slices


class MessageSlices(NamedTuple):
    """One item a message; what was not asked for may be None."""

    buffer: memoryview
    keys: Slices | None
    values: Slices | None
    headers: Headers | None  # None, too, where no message has any


def message_slices_of(batch: MessageBatch, columns: Collection[str]) -> MessageSlices:
    """For those of `key`, `value` and `headers` that are among the columns."""
    if isinstance(batch, PackedMessages):
        return _packed(batch, columns)
    assert isinstance(batch, PlainMessages), "another kind of batch"
    if "key" in columns or "headers" in columns:
        return _plain(batch)
    values = _plain_values(batch) if "value" in columns else None
    return MessageSlices(batch.run.buffer, None, values, None)


def _plain(batch: PlainMessages) -> MessageSlices:
    run = batch.run
    fields = keratin_fields(
        run.buffer, run.positions, run.header_lengths, run.payload_lengths, run.flags
    )
    if fields.stop is not BlockStop.WHOLE:
        index = len(fields.key_positions)
        if fields.stop is not BlockStop.TOO_LONG:
            batch.message(index)  # raises, and says where
        size = max(run.header_lengths[index], run.payload_lengths[index])
        raise TooLarge(f"the message {run.offsets[index]} in bytes", size=size, limit=I32_MAX)
    headers = Headers(
        fields.header_counts,
        Slices(fields.name_positions, fields.name_lengths),
        Slices(fields.header_value_positions, fields.header_value_lengths),
    )
    return MessageSlices(
        run.buffer,
        Slices(fields.key_positions, fields.key_lengths),
        Slices(fields.value_positions, fields.value_lengths),
        headers if len(fields.name_positions) else None,
    )


def _plain_values(batch: PlainMessages) -> Slices:
    """Without a look at the headers blocks."""
    run = batch.run
    positions = np.asarray(run.positions) + KERATIN_RECORD.size
    positions += np.asarray(run.header_lengths)
    lengths = np.asarray(run.payload_lengths)
    are_null = np.asarray(run.flags) & KERATIN_TOMBSTONE != 0
    if are_null.any():
        largest = int(lengths.max())
        if largest > I32_MAX:
            raise TooLarge("a message in bytes", size=largest, limit=I32_MAX)
        lengths = lengths.astype(np.int32)
        lengths[are_null] = -1
    return Slices(positions.data, lengths.data)


def _packed(batch: PackedMessages, columns: Collection[str]) -> MessageSlices:
    found = batch.batch.columns
    first = bisect_left(found.offsets, batch.offsets[0])
    last = first + len(batch)
    return MessageSlices(
        batch.batch.buffer,
        Slices(found.key_positions[first:last], found.key_lengths[first:last]),
        Slices(found.value_positions[first:last], found.value_lengths[first:last]),
        _packed_headers(batch.batch, first, last) if "headers" in columns else None,
    )


def _packed_headers(batch: DecodedBatch, first: int, last: int) -> Headers | None:
    columns = batch.columns
    counts = columns.header_counts[first:last]
    if counts.tobytes() == bytes(counts.nbytes):
        return None
    found = record_batch_headers(
        batch.buffer,
        columns.header_positions[first:last],
        columns.header_lengths[first:last],
        counts,
    )
    assert found.stop is BatchStop.WHOLE, "headers were verified when the batch was decoded"
    return Headers(
        counts,
        Slices(found.name_positions, found.name_lengths),
        Slices(found.header_value_positions, found.header_value_lengths),
    )
