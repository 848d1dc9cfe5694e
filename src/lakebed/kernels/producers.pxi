# The producers of records: Python's side of `keratin_producers.h`.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

from lakebed.kernels.results import KeratinProducers


def keratin_producers(buffer, positions, offsets, flags, header_lengths, payload_lengths):
    """Returns the producers of scanned records, as runs of messages."""
    cdef Held held = Held(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="Q")
    cdef Py_ssize_t count = len(starts)
    cdef Held held_starts = Held(starts, "positions")
    cdef Held held_offsets = held_column(offsets, "offsets", "Q", count)
    cdef Held held_flags = held_column(flags, "flags", "H", count)
    cdef Held held_blocks = held_column(header_lengths, "header_lengths", "I", count)
    cdef Held held_payloads = held_column(payload_lengths, "payload_lengths", "I", count)
    cdef fields_records records
    records.buffer = <const uint8_t *>held.view.buf
    records.buffer_bytes = <uint64_t>held.view.len
    records.positions = <const uint64_t *>held_starts.view.buf
    records.header_lengths = <const uint32_t *>held_blocks.view.buf
    records.payload_lengths = <const uint32_t *>held_payloads.view.buf
    records.flags = <const uint16_t *>held_flags.view.buf
    records.count = <size_t>count
    cdef const uint64_t *offset_items = <const uint64_t *>held_offsets.view.buf
    cdef Rows rows = Rows(b"QQQIH", records.count)
    cdef producer_runs runs
    runs.producer_ids = <uint64_t *>rows.column(0)
    runs.message_counts = <uint64_t *>rows.column(1)
    runs.base_offsets = <uint64_t *>rows.column(2)
    runs.first_sequences = <uint32_t *>rows.column(3)
    runs.epochs = <uint16_t *>rows.column(4)
    runs.count = 0
    cdef size_t at = 0
    cdef int stop
    if records.count < UNLOCK_COUNT:
        stop = producers_read_records(&records, offset_items, &runs, &at)
    else:
        with nogil:
            stop = producers_read_records(&records, offset_items, &runs, &at)
    if stop == FIELDS_OUTSIDE:
        arguments.refuse_slice(
            at, starts[at],
            keratin_record_bytes(records.header_lengths[at], records.payload_lengths[at]),
            held.view.len)
    return KeratinProducers(*rows.views(runs.count))
