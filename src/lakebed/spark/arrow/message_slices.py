"""Finds where the keys, values and headers of a batch's messages are in the batch's buffer.

The result has columns of positions and lengths. Fields that are not requested may be left out. In
`PlainMessages`, a message's key and headers are stored in its headers block; damage of that block
is noticed only if keys or headers are requested, and raises the same error as reading the message.
`PackedMessages` were checked when they were decoded.
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
    """Byte ranges in a buffer, as a column of positions and a column of lengths. A negative
    length means null.
    """

    positions: Column
    lengths: Column


class Headers(NamedTuple):
    """The headers of all messages in one sequence, and the number of headers of each message."""

    counts: Column
    names: Slices
    values: Slices


class MessageSlices(NamedTuple):
    """Where the keys, values and headers of a batch's messages are in `buffer`.

    Fields that were not requested may be None.
    """

    buffer: memoryview
    keys: Slices | None
    values: Slices | None
    headers: Headers | None  # also None if no message has headers


def message_slices_of(batch: MessageBatch, columns: Collection[str]) -> MessageSlices:
    """Finds the keys, values and headers of the batch's messages, as far as they are requested.

    `columns` requests them as `key`, `value` and `headers`; other names in it are ignored.
    """
    if isinstance(batch, PackedMessages):
        return _packed(batch, columns)
    assert isinstance(batch, PlainMessages), "unknown kind of batch"
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
            batch.message(index)  # raises an error with the position
        size = max(run.header_lengths[index], run.payload_lengths[index])
        raise TooLarge(
            f"the size in bytes of the headers block or value of the message at offset "
            f"{run.offsets[index]}",
            size=size,
            limit=I32_MAX,
        )
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
    """Finds the values of the messages without parsing their headers blocks."""
    run = batch.run
    positions = np.asarray(run.positions) + KERATIN_RECORD.size
    positions += np.asarray(run.header_lengths)
    lengths = np.asarray(run.payload_lengths)
    are_null = np.asarray(run.flags) & KERATIN_TOMBSTONE != 0
    if are_null.any():
        largest = int(lengths.max())
        if largest > I32_MAX:
            raise TooLarge("the size of a message value in bytes", size=largest, limit=I32_MAX)
        lengths = lengths.astype(np.int32)
        lengths[are_null] = -1
    return Slices(positions.data, lengths.data)


def _packed(batch: PackedMessages, columns: Collection[str]) -> MessageSlices:
    fields = batch.batch.columns
    first = bisect_left(fields.offsets, batch.offsets[0])
    last = first + len(batch)
    return MessageSlices(
        batch.batch.buffer,
        Slices(fields.key_positions[first:last], fields.key_lengths[first:last]),
        Slices(fields.value_positions[first:last], fields.value_lengths[first:last]),
        _packed_headers(batch.batch, first, last) if "headers" in columns else None,
    )


def _packed_headers(batch: DecodedBatch, first: int, last: int) -> Headers | None:
    columns = batch.columns
    counts = columns.header_counts[first:last]
    if counts.tobytes() == bytes(counts.nbytes):
        return None
    headers = record_batch_headers(
        batch.buffer,
        columns.header_positions[first:last],
        columns.header_lengths[first:last],
        counts,
    )
    assert headers.stop is BatchStop.WHOLE, "headers were verified when the batch was decoded"
    return Headers(
        counts,
        Slices(headers.name_positions, headers.name_lengths),
        Slices(headers.header_value_positions, headers.header_value_lengths),
    )
