# Writing without the interpreter lock: chunks with one sync behind them, and zeros.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

def write_and_sync(fd, offset, chunks, *, sync):
    """Writes the chunks one after another at `offset`, then calls `fdatasync` if `sync` is set."""
    cdef int number = <int>integer(fd, "fd", FD_MAX)
    cdef uint64_t place = integer(offset, "offset", OFFSET_MAX)
    cdef bint sync_after = bool(sync)
    cdef tuple taken = items(chunks, "chunks")
    if has_batch(taken):
        return write_sources(number, place, taken, sync_after)
    cdef Spans spans = Spans(taken, "chunk")
    check_range(place, spans.total_bytes)
    cdef const span *inputs = spans.spans
    cdef size_t count = <size_t>spans.count
    cdef size_t scratch_bytes = writing_scratch_bytes(inputs, count)
    cdef write_outcome outcome = write_outcome(0, 0, 0)
    cdef uint8_t *scratch = <uint8_t *>PyMem_RawMalloc(max(scratch_bytes, <size_t>1))
    if scratch == NULL:
        raise MemoryError
    with nogil:
        writing_put_chunks(number, place, inputs, count, scratch, &outcome)
        if sync_after and outcome.write_errno == 0:
            outcome.sync_errno = writing_sync(number)
    PyMem_RawFree(scratch)
    return WriteOutcome(outcome.written, outcome.write_errno, outcome.sync_errno)


def zero_fill(fd, offset, length):
    """Writes `length` zero bytes at `offset` without a sync. Otherwise like `write_and_sync`."""
    cdef int number = <int>integer(fd, "fd", FD_MAX)
    cdef uint64_t place = integer(offset, "offset", OFFSET_MAX)
    cdef uint64_t bytes_left = integer(length, "length", OFFSET_MAX)
    cdef write_outcome outcome = write_outcome(0, 0, 0)
    check_range(place, bytes_left)
    with nogil:
        writing_put_zeros(number, place, bytes_left, &outcome)
    return WriteOutcome(outcome.written, outcome.write_errno, 0)
