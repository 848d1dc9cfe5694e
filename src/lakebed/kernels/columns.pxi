# Columns for Arrow out of records: Python's side of `gather.h` and `keratin_fields.h`.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

from lakebed.kernels.results import BlockStop, Gathered, HeaderPlaces, KeratinFields

cdef tuple BLOCK_STOPS = tuple(BlockStop)

cdef enum:
    UNLOCK_COUNT = 8 << 10  # items of a column that a loop looks at: some ten microseconds


cdef Held held_column(value, str what, str codes, Py_ssize_t count):
    """Exports a column that must have `count` items."""
    view, _ = arguments.companion_column(value, what, codes=codes, count=count)
    return Held(view, what)


def gather(buffer, positions, lengths):
    """Copies slices of `buffer` into one new buffer, one after another."""
    cdef Held held = Held(buffer, "buffer")
    starts, position_code = arguments.typed_column(positions, "positions", codes="QI")
    sizes, length_code = arguments.companion_column(
        lengths, "lengths", codes="iI", count=len(starts))
    cdef Held held_starts = Held(starts, "positions")
    cdef Held held_sizes = Held(sizes, "lengths")
    cdef gather_slices slices
    slices.buffer = <const uint8_t *>held.view.buf
    slices.buffer_bytes = <uint64_t>held.view.len
    slices.positions = held_starts.view.buf
    slices.lengths = <const uint32_t *>held_sizes.view.buf
    slices.count = <size_t>len(starts)
    slices.has_wide_positions = position_code == "Q"
    slices.has_signed_lengths = length_code == "i"
    cdef Rows rows = Rows(b"i", slices.count + 1)
    cdef int32_t *offset_items = <int32_t *>rows.column(0)
    cdef size_t null_count = 0, index = 0
    cdef uint64_t total = 0
    cdef int stop
    if slices.count < UNLOCK_COUNT:
        stop = gather_measure(&slices, offset_items, &null_count, &index, &total)
    else:
        with nogil:
            stop = gather_measure(&slices, offset_items, &null_count, &index, &total)
    if stop == GATHER_OUTSIDE:
        arguments.refuse_slice(index, starts[index], sizes[index], held.view.len)
    if stop != GATHER_WHOLE:
        arguments.refuse_large("the column", total, arguments.I32_MAX)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
    cdef bint is_inside
    if total < UNLOCK_BYTES:
        is_inside = gather_copy(&slices, offset_items, out)
    else:
        with nogil:
            is_inside = gather_copy(&slices, offset_items, out)
    if not is_inside:
        arguments.refuse_changed("positions")
    cdef bytes validity = None
    if null_count:
        # Not `bytes(size)`: that of one byte is shared by the whole interpreter.
        validity = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>(slices.count + 7) // 8)
        gather_validity(&slices, <uint8_t *>PyBytes_AS_STRING(validity))
    return Gathered(data, rows.view(0, slices.count + 1), validity, null_count)


cdef class HeaderRows:
    """The columns of headers, which grow while headers are decoded."""

    cdef Rows rows
    cdef header_columns columns

    def __cinit__(self):
        self.rows = Rows(b"QQii", 0)
        self.columns.count = 0
        self.point(0)

    cdef int point(self, size_t room) noexcept:
        self.columns.name_positions = <uint64_t *>self.rows.column(0)
        self.columns.value_positions = <uint64_t *>self.rows.column(1)
        self.columns.name_lengths = <int32_t *>self.rows.column(2)
        self.columns.value_lengths = <int32_t *>self.rows.column(3)
        self.columns.room = room
        return 0

    cdef int grow(self, size_t messages_done, size_t message_count) except -1:
        """Enlarges the columns for the headers found so far, and for the remaining messages if they
        have as many headers each.
        """
        cdef size_t needed = self.columns.needed
        cdef uint64_t expected = <uint64_t>needed * message_count // (messages_done + 1)
        # A wrong guess costs no more than doubling would.
        cdef size_t room = <size_t>max(<uint64_t>needed, min(expected, <uint64_t>needed * 2))
        if self.columns.room == 0:
            room = max(needed, message_count)
        self.rows.move(room, self.columns.count)
        return self.point(room)

    cdef tuple places(self):
        """Returns the columns in the order of the results: names, then values."""
        names, values, name_lengths, value_lengths = self.rows.views(self.columns.count)
        return names, name_lengths, values, value_lengths


def keratin_fields(buffer, positions, header_lengths, payload_lengths, flags):
    """Returns where the keys, values and headers of records are."""
    cdef Held held = Held(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="Q")
    cdef Py_ssize_t count = len(starts)
    cdef Held held_starts = Held(starts, "positions")
    cdef Held held_blocks = held_column(header_lengths, "header_lengths", "I", count)
    cdef Held held_payloads = held_column(payload_lengths, "payload_lengths", "I", count)
    cdef Held held_flags = held_column(flags, "flags", "H", count)
    cdef fields_records records
    records.buffer = <const uint8_t *>held.view.buf
    records.buffer_bytes = <uint64_t>held.view.len
    records.positions = <const uint64_t *>held_starts.view.buf
    records.header_lengths = <const uint32_t *>held_blocks.view.buf
    records.payload_lengths = <const uint32_t *>held_payloads.view.buf
    records.flags = <const uint16_t *>held_flags.view.buf
    records.count = <size_t>count
    cdef HeaderRows headers = HeaderRows()
    cdef Rows rows = Rows(b"QQiiI", records.count)
    cdef fields_columns columns
    cdef int stop = FIELDS_ROOM
    columns.key_positions = <uint64_t *>rows.column(0)
    columns.value_positions = <uint64_t *>rows.column(1)
    columns.key_lengths = <int32_t *>rows.column(2)
    columns.value_lengths = <int32_t *>rows.column(3)
    columns.header_counts = <uint32_t *>rows.column(4)
    columns.count = 0
    while True:
        if records.count < UNLOCK_COUNT:
            stop = fields_read_records(&records, &columns, &headers.columns)
        else:
            with nogil:
                stop = fields_read_records(&records, &columns, &headers.columns)
        if stop != FIELDS_ROOM:
            break
        headers.grow(columns.count, records.count)
    cdef size_t at = columns.count
    if stop == FIELDS_OUTSIDE:
        arguments.refuse_slice(
            at, starts[at],
            keratin_record_bytes(records.header_lengths[at], records.payload_lengths[at]),
            held.view.len)
    keys, values, key_lengths, value_lengths, counts = rows.views(columns.count)
    return KeratinFields(
        keys, key_lengths, values, value_lengths, counts, *headers.places(), BLOCK_STOPS[stop])


def record_batch_headers(buffer, positions, lengths, counts):
    """Returns where the headers of messages are."""
    cdef Held held = Held(buffer, "buffer")
    starts, _ = arguments.typed_column(positions, "positions", codes="I")
    cdef Py_ssize_t count = len(starts)
    cdef Held held_starts = Held(starts, "positions")
    cdef Held held_lengths = held_column(lengths, "lengths", "I", count)
    cdef Held held_counts = held_column(counts, "counts", "I", count)
    cdef header_sections sections
    sections.buffer = <const uint8_t *>held.view.buf
    sections.buffer_bytes = <uint64_t>held.view.len
    sections.positions = <const uint32_t *>held_starts.view.buf
    sections.lengths = <const uint32_t *>held_lengths.view.buf
    sections.counts = <const uint32_t *>held_counts.view.buf
    sections.count = <size_t>count
    cdef HeaderRows headers = HeaderRows()
    cdef size_t done = 0
    cdef int stop
    while True:
        if sections.count < UNLOCK_COUNT:
            stop = sections_read(&sections, &done, &headers.columns)
        else:
            with nogil:
                stop = sections_read(&sections, &done, &headers.columns)
        if stop != FIELDS_ROOM:
            break
        headers.grow(done, sections.count)
    if stop == FIELDS_OUTSIDE:
        arguments.refuse_slice(
            done, sections.positions[done], sections.lengths[done], held.view.len)
    return HeaderPlaces(*headers.places(), done, BATCH_STOPS[stop])
