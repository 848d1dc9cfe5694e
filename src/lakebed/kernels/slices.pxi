# Messages that stand as slices in a few large buffers: Python's side of `slices.h`.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

cdef class SlicedSpans:
    """The slices of a buffer, which is held for as long as this object lives."""

    cdef Held held
    cdef span *spans
    cdef Py_ssize_t count

    def __cinit__(self, value, str what):
        cdef gather_slices slices
        cdef size_t good
        buffer, positions, lengths = arguments.sliced(value, what)
        starts, position_code = arguments.typed_column(positions, f"{what} positions", codes="QI")
        sizes, length_code = arguments.companion_column(
            lengths, f"{what} lengths", codes="iI", count=len(starts))
        cdef Held held_starts = Held(starts, f"{what} positions")
        cdef Held held_sizes = Held(sizes, f"{what} lengths")
        self.held = Held(buffer, f"{what} buffer")
        self.count = len(starts)
        self.spans = <span *>PyMem_RawMalloc(max(self.count, 1) * sizeof(span))
        if self.spans == NULL:
            raise MemoryError
        slices.buffer = <const uint8_t *>self.held.view.buf
        slices.buffer_bytes = <uint64_t>self.held.view.len
        slices.positions = held_starts.view.buf
        slices.lengths = <const uint32_t *>held_sizes.view.buf
        slices.count = <size_t>self.count
        slices.has_wide_positions = position_code == "Q"
        slices.has_signed_lengths = length_code == "i"
        if self.count < UNLOCK_COUNT:
            good = slices_spans(&slices, self.spans)
        else:
            with nogil:
                good = slices_spans(&slices, self.spans)
        if good < slices.count:
            arguments.refuse_slice(good, starts[good], sizes[good], self.held.view.len)

    cdef int check_lengths(self, str what) except -1:
        """Raises `TooLarge` if a slice is longer than an i32 allows, as unsigned lengths may be."""
        cdef Py_ssize_t index
        for index in range(self.count):
            if <uint64_t>self.spans[index].length > I32_MAX:
                arguments.refuse_large(f"{what} {index}", self.spans[index].length, I32_MAX)
        return 0

    def __dealloc__(self):
        PyMem_RawFree(self.spans)


cdef SlicedSpans sliced_spans(object value, str plural, str what, Py_ssize_t count):
    """Returns one slice per message, or None if `value` is None."""
    if value is None:
        return None
    cdef SlicedSpans spans = SlicedSpans(value, plural)
    if spans.count != count:
        arguments.refuse_count(plural, spans.count, count)
    spans.check_lengths(what)
    return spans


def record_batch_encode_slices(
        values, keys=None, headers=None, *, timestamps_ms, first_timestamp_ms, capacity):
    """Like `record_batch_encode`, but values, keys and headers are slices of buffers."""
    cdef SlicedSpans spans = SlicedSpans(values, "values")
    spans.check_lengths("value")
    cdef SlicedSpans key_spans = sliced_spans(keys, "keys", "key", spans.count)
    cdef SlicedSpans blocks = sliced_spans(headers, "headers", "header", spans.count)
    cdef batch_messages messages
    messages.values = spans.spans
    messages.keys = NULL if key_spans is None else key_spans.spans
    messages.headers = NULL if blocks is None else blocks.spans
    messages.count = <size_t>spans.count
    cdef Numbers stamps = Numbers(timestamps_ms, "timestamps_ms", "q", spans.count)
    return encoded_messages(&messages, stamps, first_timestamp_ms, capacity)


def record_batch_sections(counts, names, values):
    """Encodes the headers of messages, as one section per message."""
    cdef SlicedSpans name_spans = SlicedSpans(names, "names")
    name_spans.check_lengths("name")
    cdef SlicedSpans value_spans = SlicedSpans(values, "values")
    if value_spans.count != name_spans.count:
        arguments.refuse_count("values", value_spans.count, name_spans.count)
    value_spans.check_lengths("value")
    cdef Py_ssize_t index
    for index in range(name_spans.count):
        if name_spans.spans[index].data == NULL:
            arguments.refuse_null("name", index)
    view, _ = arguments.typed_column(counts, "counts", codes="I")
    cdef bytes own = view.tobytes()  # nobody changes it between measuring and writing
    cdef const uint32_t *items = <const uint32_t *>PyBytes_AS_STRING(own)
    cdef size_t count = <size_t>len(view)
    cdef Rows rows = Rows(b"i", count + 1)
    cdef int32_t *offsets = <int32_t *>rows.column(0)
    cdef uint64_t total = 0
    cdef int stop = sections_measure(
        items, count, name_spans.spans, value_spans.spans, <size_t>name_spans.count, offsets,
        &total)
    if stop == SECTIONS_COUNT:
        arguments.refuse_sections(sum(view), name_spans.count)
    if stop != SECTIONS_WHOLE:
        arguments.refuse_large("the column", total, arguments.I32_MAX)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>total)
    sections_write(
        items, count, name_spans.spans, value_spans.spans, <uint8_t *>PyBytes_AS_STRING(data))
    return Gathered(data, rows.view(0, count + 1), None, 0)


def murmur2(key):
    """Returns the murmur2 hash of a key, which decides the partition of a message."""
    cdef Held held
    if PyBytes_CheckExact(key):
        return murmur2_hash(<const uint8_t *>PyBytes_AS_STRING(key), <size_t>PyBytes_GET_SIZE(key))
    held = Held(key, "a key")
    return murmur2_hash(<const uint8_t *>held.view.buf, <size_t>held.view.len)


def murmur2_hashes(slices):
    """Returns the murmur2 hash of each key in `slices`, or 0 for a null."""
    cdef SlicedSpans spans = SlicedSpans(slices, "slices")
    cdef Rows rows = Rows(b"I", <size_t>spans.count)
    cdef uint32_t *hashes = <uint32_t *>rows.column(0)
    if spans.count < UNLOCK_COUNT:
        murmur2_spans(spans.spans, <size_t>spans.count, hashes)
    else:
        with nogil:
            murmur2_spans(spans.spans, <size_t>spans.count, hashes)
    return rows.view(0, <size_t>spans.count)
