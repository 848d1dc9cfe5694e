# The records section of a Kafka record batch: Python's side of `record_batch.h`.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

from lakebed.kernels.results import BatchEncoded, BatchRecords, BatchStop

cdef tuple BATCH_STOPS = tuple(BatchStop)
cdef uint64_t I32_MAX = arguments.I32_MAX
cdef uint64_t I64_MAX = arguments.I64_MAX
cdef const uint8_t *NO_BYTES = b""


cdef Spans nullable_spans(tuple values, str what):
    """Returns the spans of the values. Only a `None` has the data NULL, although some exporters
    have NULL for empty buffers too.
    """
    cdef Spans spans = Spans(values, what, True)
    cdef Py_ssize_t index
    for index in range(spans.count):
        if spans.spans[index].data == NULL and spans.items[index] is not None:
            spans.spans[index].data = NO_BYTES
        if <uint64_t>spans.spans[index].length > I32_MAX:
            arguments.refuse_large(f"{what} {index}", spans.spans[index].length, I32_MAX)
    return spans


cdef Spans companion_spans(object values, str plural, str what, Py_ssize_t count):
    """Returns one span per message, or None if `values` is None."""
    if values is None:
        return None
    cdef tuple taken = items(values, plural)
    if len(taken) != count:
        arguments.refuse_count(plural, len(taken), count)
    return nullable_spans(taken, what)


def record_batch_encode(
        values, keys=None, headers=None, *, timestamps_ms, first_timestamp_ms, capacity):
    """Encodes the longest prefix of the messages whose records fit in `capacity` bytes."""
    cdef Spans spans = nullable_spans(items(values, "values"), "value")
    cdef Spans key_spans = companion_spans(keys, "keys", "key", spans.count)
    cdef Spans blocks = companion_spans(headers, "headers", "header", spans.count)
    cdef Numbers stamps = Numbers(timestamps_ms, "timestamps_ms", "q", spans.count)
    cdef batch_messages messages
    messages.values = spans.spans
    messages.keys = NULL if key_spans is None else key_spans.spans
    messages.headers = NULL if blocks is None else blocks.spans
    messages.count = <size_t>spans.count
    return encoded_messages(&messages, stamps, first_timestamp_ms, capacity)


cdef object encoded_messages(
        batch_messages *messages, Numbers stamps, first_timestamp_ms, capacity):
    """Sets the timestamps of the messages, and encodes those that fit in `capacity` bytes."""
    messages.timestamps_ms = <const int64_t *>stamps.values
    messages.timestamp_step = stamps.step
    messages.first_timestamp_ms = arguments.integer(
        first_timestamp_ms, "first_timestamp_ms", minimum=arguments.I64_MIN,
        maximum=arguments.I64_MAX)
    cdef uint64_t room = min(<uint64_t>arguments.limit(capacity, "capacity"), I32_MAX)
    cdef size_t far = batch_far_timestamp(messages)
    if far < messages.count:
        arguments.refuse_distance(
            far, messages.timestamps_ms[far * stamps.step], messages.first_timestamp_ms)
    cdef uint64_t size = 0
    cdef size_t count = batch_fitting(messages, room, &size)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
    if size < UNLOCK_BYTES:
        batch_encode_records(out, messages, count)
    else:
        with nogil:
            batch_encode_records(out, messages, count)
    return BatchEncoded(data, count)


def record_batch_decode(buffer, start, end, *, count, first_offset=0, first_timestamp_ms=0):
    """Decodes `count` messages, which must fill `buffer[start:end]` exactly, into columns."""
    cdef Held held = Held(buffer, "buffer")
    cdef const uint8_t *data = <const uint8_t *>held.view.buf
    first, last = arguments.bounds(min(held.view.len, arguments.U32_MAX), start, end)
    cdef uint64_t position = first
    cdef uint64_t stop_at = last
    cdef size_t wanted = <size_t>integer(count, "count", I32_MAX)
    cdef uint64_t base = integer(first_offset, "first_offset", I64_MAX)
    cdef int64_t stamp = arguments.integer(
        first_timestamp_ms, "first_timestamp_ms", minimum=arguments.I64_MIN,
        maximum=arguments.I64_MAX)
    # Room for no more than can be there, whatever the count pretends.
    cdef Rows rows = Rows(
        b"QqIiIiIII", min(wanted, <size_t>(stop_at - position) // BATCH_RECORD_BYTES_MIN))
    cdef batch_columns columns
    cdef int stop
    columns.offsets = <uint64_t *>rows.column(0)
    columns.timestamps_ms = <int64_t *>rows.column(1)
    columns.key_positions = <uint32_t *>rows.column(2)
    columns.key_lengths = <int32_t *>rows.column(3)
    columns.value_positions = <uint32_t *>rows.column(4)
    columns.value_lengths = <int32_t *>rows.column(5)
    columns.header_positions = <uint32_t *>rows.column(6)
    columns.header_lengths = <uint32_t *>rows.column(7)
    columns.header_counts = <uint32_t *>rows.column(8)
    if stop_at - position < UNLOCK_BYTES:
        stop = batch_decode_records(data, &position, stop_at, wanted, base, stamp, &columns)
    else:
        with nogil:
            stop = batch_decode_records(data, &position, stop_at, wanted, base, stamp, &columns)
    return BatchRecords(*rows.views(columns.count), position, BATCH_STOPS[stop])


def record_batch_slices(buffer, positions, lengths):
    """Returns the bytes of each slice of `buffer`, or `None` where the length is -1."""
    cdef Held held = Held(buffer, "buffer")
    cdef const char *data = <const char *>held.view.buf
    cdef Held starts = Held(arguments.column(positions, "positions", code="I"), "positions")
    cdef Held sizes = Held(arguments.column(lengths, "lengths", code="i"), "lengths")
    cdef const uint32_t *start_items = <const uint32_t *>starts.view.buf
    cdef const int32_t *size_items = <const int32_t *>sizes.view.buf
    cdef Py_ssize_t count = len(positions)
    cdef Py_ssize_t index
    cdef list found = []
    if len(lengths) != count:
        arguments.refuse_count("lengths", len(lengths), count)
    for index in range(count):
        if size_items[index] < 0:
            found.append(None)
            continue
        if <int64_t>start_items[index] + size_items[index] > held.view.len:
            arguments.refuse_slice(
                index, start_items[index], size_items[index], held.view.len)
        found.append(PyBytes_FromStringAndSize(data + start_items[index], size_items[index]))
    return found
