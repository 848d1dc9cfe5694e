"""Extracts the producers from scanned records, in plain Python like `reference`."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from lakebed.base.files.writing import byte_view
from lakebed.kernels import arguments
from lakebed.kernels.format import (
    KERATIN_BATCH,
    KERATIN_BLOCK,
    KERATIN_BLOCK_VERSION,
    KERATIN_HAS_KEY,
    KERATIN_HAS_PRODUCER,
    KERATIN_KEY,
    KERATIN_PRODUCER,
    KERATIN_RECORD,
    KERATIN_TRAILER,
    PRODUCER_RUN_COUNT_MAX,
    PRODUCER_SEQUENCE_COUNT,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    Producer,
)
from lakebed.kernels.results import KeratinProducers

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FIXED_BYTES = KERATIN_RECORD.size + KERATIN_TRAILER.size
_CODES = "QQQIH"


def keratin_producers(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    offsets: ReadableBuffer,
    flags: ReadableBuffer,
    header_lengths: ReadableBuffer,
    payload_lengths: ReadableBuffer,
) -> KeratinProducers:
    """Returns the producers of scanned records, as runs of messages.

    The arguments after `buffer` are columns of a `KeratinScan`. A run is a sequence of adjacent
    records of one producer whose sequence numbers and offsets are consecutive. A record with an
    invalid headers block or record batch counts as having no producer. The checksum inside a batch
    is not verified, because the record's checksum covers it.
    """
    view = byte_view(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="Q")
    count = len(starts)
    bases, _ = arguments.companion_column(offsets, "offsets", codes="Q", count=count)
    marks, _ = arguments.companion_column(flags, "flags", codes="H", count=count)
    others = {"header_lengths": header_lengths, "payload_lengths": payload_lengths}
    blocks, payloads = (
        arguments.companion_column(column, what, codes="I", count=count)[0]
        for what, column in others.items()
    )
    runs: list[list[int]] = []  # in the order of the columns
    for index, row in enumerate(zip(starts, bases, marks, blocks, payloads, strict=True)):
        start, offset, mark, block_bytes, payload_bytes = row
        size = _FIXED_BYTES + block_bytes + payload_bytes
        if start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        block = start + KERATIN_RECORD.size
        payload = block + block_bytes
        if mark & KERATIN_BATCH:
            named = _of_batch(view[payload : payload + payload_bytes])
        else:
            named = _of_block(view[block:payload])
        if named is None:
            continue
        producer, message_count = named
        if runs and _continues(runs[-1], producer, message_count, offset):
            runs[-1][1] += message_count
        else:
            runs.append(
                [producer.producer_id, message_count, offset, producer.sequence, producer.epoch]
            )
    columns = (array(code, [run[at] for run in runs]) for at, code in enumerate(_CODES))
    return KeratinProducers._make(memoryview(column).toreadonly() for column in columns)


def _of_block(block: memoryview) -> tuple[Producer, int] | None:
    if len(block) < KERATIN_BLOCK.size:
        return None
    start = KERATIN_BLOCK.unpack(block)
    if start.version != KERATIN_BLOCK_VERSION or not start.flags & KERATIN_HAS_PRODUCER:
        return None
    position = KERATIN_BLOCK.size
    if start.flags & KERATIN_HAS_KEY:
        if len(block) < position + KERATIN_KEY.size:
            return None
        position += KERATIN_KEY.size + KERATIN_KEY.unpack(block, position).length
    if len(block) < position + KERATIN_PRODUCER.size:
        return None
    return KERATIN_PRODUCER.unpack(block, position), 1


def _of_batch(batch: memoryview) -> tuple[Producer, int] | None:
    if len(batch) < RECORD_BATCH.size:
        return None
    header = RECORD_BATCH.unpack(batch)
    producer = Producer(header.producer_id, header.producer_epoch, header.base_sequence)
    if header.magic != RECORD_BATCH_MAGIC or min(producer) < 0:
        return None
    return producer, max(header.last_offset_delta, 0) + 1


def _continues(run: list[int], producer: Producer, message_count: int, offset: int) -> bool:
    producer_id, count, base_offset, first_sequence, epoch = run
    sequence = (first_sequence + count) % PRODUCER_SEQUENCE_COUNT
    is_next = producer == (producer_id, epoch, sequence) and offset == base_offset + count
    return is_next and count + message_count <= PRODUCER_RUN_COUNT_MAX
