# Records that are encoded on their way to the disk: Python's side of `sources.h`.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

cdef Spans held_spans(tuple values, str what, bint allow_none, bint is_copied):
    """Returns the spans of the values. If `is_copied` is set, values that are not `bytes` are
    copied, because their owners may change them later.
    """
    cdef Spans spans = Spans(values, what, allow_none)
    if spans.view_count == 0 or not is_copied:
        return spans
    copies = [
        one if one is None else arguments.copied(one, f"{what} {index}")
        for index, one in enumerate(values)
    ]
    return Spans(tuple(copies), what, allow_none)


cdef class AofBatch:
    """AOF2 records that `write_and_sync` encodes on their way to the disk.

    The payloads are kept in memory as `bytes` (copied if necessary) as long as this object exists.
    Other code that reads it as a bytes-like object gets the encoded records.
    """

    cdef Spans spans
    cdef Numbers timestamps
    cdef Numbers ext_ids
    cdef size_t count
    cdef Rows rows
    cdef bytes data
    cdef uint64_t crc
    cdef bint has_crc
    cdef size_t longest
    cdef readonly uint64_t size
    cdef readonly object offsets

    def __cinit__(self, payloads, timestamps, ext_ids, capacity):
        cdef uint64_t position = 0
        cdef uint64_t *offset_items
        cdef size_t index
        self.spans = held_spans(items(payloads, "payloads"), "payload", False, True)
        self.spans.check_lengths("payload", False)
        self.timestamps = Numbers(timestamps, "timestamps", "Q", self.spans.count)
        self.ext_ids = Numbers(ext_ids, "ext_ids", "Q", self.spans.count)
        self.count = aof_fitting(
            self.spans.spans, <size_t>self.spans.count, arguments.limit(capacity, "capacity"),
            &self.size)
        self.rows = Rows(b"Q", self.count)
        offset_items = <uint64_t *>self.rows.column(0)
        for index in range(self.count):
            offset_items[index] = position
            position += aof_record_bytes(self.spans.spans[index].length)
            self.longest = max(self.longest, self.spans.spans[index].length)
        self.offsets = self.rows.view(0, self.count)

    def __len__(self):
        return self.size

    @property
    def crc64(self):
        """The crc64-nvme of the encoded records."""
        if not self.has_crc:
            self.encode()
        return self.crc

    cdef int encode(self) except -1:
        cdef uint64_t state = ~<uint64_t>0
        cdef uint8_t *out
        cdef const span *inputs = self.spans.spans
        cdef uint64_t *offset_items = <uint64_t *>self.rows.column(0)
        cdef numbers64 stamps = self.timestamps.wide()
        cdef numbers64 ids = self.ext_ids.wide()
        if self.data is not None:
            return 0
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.size)
        out = <uint8_t *>PyBytes_AS_STRING(data)
        with nogil:
            state = aof_encode_records(out, inputs, self.count, stamps, ids, offset_items, state)
        self.data = data
        self.crc = ~state
        self.has_crc = True
        return 0

    cdef bint describe(self, source *record_source) noexcept:
        """Returns whether the batch can be encoded piece by piece while it is written; if so, fills
        `record_source`.
        """
        if self.longest > SCRATCH_BODY_MAX:
            return False
        record_source.kind = SOURCE_AOF
        record_source.payloads = self.spans.spans
        record_source.count = self.count
        record_source.timestamps = self.timestamps.wide()
        record_source.ext_ids = self.ext_ids.wide()
        record_source.state = ~<uint64_t>0
        return True

    def __getbuffer__(self, Py_buffer *view, int flags):
        self.encode()
        PyBuffer_FillInfo(
            view, self, <void *>PyBytes_AS_STRING(self.data), <Py_ssize_t>self.size, 1, flags)


def aof_batch(payloads, *, timestamps, ext_ids, capacity):
    """Like `aof_encode`, but the records are encoded when they are written; see `AofBatch`."""
    return AofBatch(payloads, timestamps, ext_ids, capacity)


cdef class KeratinBatch:
    """Keratin records that `write_and_sync` encodes on their way to the disk.

    The payloads and headers are kept in memory as long as this object exists. Other code that reads
    it as a bytes-like object gets the encoded records.
    """

    cdef Spans spans
    cdef Spans blocks
    cdef Numbers message_offsets
    cdef Numbers timestamps
    cdef Numbers flags
    cdef size_t count
    cdef Rows rows
    cdef bytes data
    cdef uint64_t longest
    cdef readonly uint64_t size
    cdef readonly object positions

    def __cinit__(self, Spans payloads, Spans headers, offsets, timestamps_ms, flags, capacity):
        cdef uint64_t position = 0, record_bytes
        cdef uint64_t *position_items
        cdef size_t index
        cdef const span *block_inputs
        self.spans = payloads
        self.blocks = headers
        self.message_offsets = Numbers(offsets, "offsets", "Q", self.spans.count)
        if self.message_offsets.step == 0:
            arguments.check_last_offset(self.message_offsets.one64, self.spans.count)
        self.timestamps = Numbers(timestamps_ms, "timestamps_ms", "Q", self.spans.count)
        self.flags = Numbers(flags, "flags", "H", self.spans.count)
        block_inputs = self.block_inputs()
        self.count = keratin_fitting(
            self.spans.spans, block_inputs, <size_t>self.spans.count,
            arguments.limit(capacity, "capacity"), &self.size)
        self.rows = Rows(b"Q", self.count)
        position_items = <uint64_t *>self.rows.column(0)
        for index in range(self.count):
            position_items[index] = position
            record_bytes = keratin_record_bytes(
                0 if block_inputs == NULL else block_inputs[index].length,
                self.spans.spans[index].length)
            position += record_bytes
            self.longest = max(self.longest, record_bytes)
        self.positions = self.rows.view(0, self.count)

    def __len__(self):
        return self.size

    cdef const span *block_inputs(self) noexcept:
        return NULL if self.blocks is None else self.blocks.spans

    cdef int encode(self) except -1:
        cdef uint8_t *out
        cdef const span *inputs = self.spans.spans
        cdef const span *block_inputs = self.block_inputs()
        cdef uint64_t *position_items = <uint64_t *>self.rows.column(0)
        cdef numbers64 message_offsets = self.message_offsets.wide()
        cdef numbers64 stamps = self.timestamps.wide()
        cdef numbers16 flag_values = self.flags.narrow()
        if self.data is not None:
            return 0
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>self.size)
        out = <uint8_t *>PyBytes_AS_STRING(data)
        if self.size < UNLOCK_BYTES:
            keratin_encode_records(
                out, inputs, block_inputs, self.count, message_offsets, stamps, flag_values,
                position_items)
        else:
            with nogil:
                keratin_encode_records(
                    out, inputs, block_inputs, self.count, message_offsets, stamps, flag_values,
                    position_items)
        self.data = data
        return 0

    cdef bint describe(self, source *record_source) noexcept:
        """Returns whether the batch can be encoded piece by piece while it is written; if so, fills
        `record_source`.
        """
        if self.longest > SCRATCH_BODY_MAX:
            return False
        record_source.kind = SOURCE_KERATIN
        record_source.payloads = self.spans.spans
        record_source.headers = self.block_inputs()
        record_source.count = self.count
        record_source.offsets = self.message_offsets.wide()
        record_source.timestamps = self.timestamps.wide()
        record_source.flags = self.flags.narrow()
        return True

    def __getbuffer__(self, Py_buffer *view, int flags):
        self.encode()
        PyBuffer_FillInfo(
            view, self, <void *>PyBytes_AS_STRING(self.data), <Py_ssize_t>self.size, 1, flags)


cdef KeratinBatch new_keratin_batch(
        payloads, headers, offsets, timestamps_ms, flags, capacity, bint is_copied):
    """Returns a batch. If `is_copied` is set, payloads and headers that are not `bytes` are
    copied.
    """
    cdef tuple header_items
    cdef Spans blocks = None
    cdef Spans spans = held_spans(items(payloads, "payloads"), "payload", False, is_copied)
    spans.check_lengths("payload", True)
    if headers is not None:
        header_items = items(headers, "headers")
        if len(header_items) != spans.count:
            arguments.refuse_count("headers", len(header_items), spans.count)
        blocks = held_spans(header_items, "header", True, is_copied)
        blocks.check_lengths("header", True)
    return KeratinBatch(spans, blocks, offsets, timestamps_ms, flags, capacity)


def keratin_batch(payloads, headers, *, offsets, timestamps_ms, flags, capacity):
    """Like `keratin_encode`, but the records are encoded when they are written; see
    `KeratinBatch`.
    """
    return new_keratin_batch(payloads, headers, offsets, timestamps_ms, flags, capacity, True)


def keratin_encode(payloads, headers, *, offsets, timestamps_ms, flags, capacity):
    """Encodes the longest prefix of `payloads` whose Keratin records fit in `capacity` bytes."""
    cdef KeratinBatch batch = new_keratin_batch(
        payloads, headers, offsets, timestamps_ms, flags, capacity, False)
    batch.encode()
    return KeratinEncoded(batch.data, batch.positions)


cdef class Sources:
    """Chunks to write, some of which are batches still to be encoded. Keeps them in memory."""

    cdef tuple chunks
    cdef list held
    cdef source *sources
    cdef size_t count
    cdef uint64_t total_bytes

    def __cinit__(self, tuple chunks):
        cdef size_t index
        cdef Held plain
        self.chunks = chunks
        self.held = []
        self.count = <size_t>len(chunks)
        self.sources = <source *>PyMem_RawMalloc(max(self.count, <size_t>1) * sizeof(source))
        if self.sources == NULL:
            raise MemoryError
        for index in range(self.count):
            item = chunks[index]
            if type(item) is AofBatch and (<AofBatch>item).describe(&self.sources[index]):
                self.total_bytes += (<AofBatch>item).size
            elif type(item) is KeratinBatch and (<KeratinBatch>item).describe(&self.sources[index]):
                self.total_bytes += (<KeratinBatch>item).size
            else:
                plain = Held(item, f"chunk {index}")
                self.held.append(plain)
                self.sources[index].kind = SOURCE_PLAIN
                self.sources[index].plain.data = <const uint8_t *>plain.view.buf
                self.sources[index].plain.length = <size_t>plain.view.len
                self.total_bytes += <uint64_t>plain.view.len

    cdef int note_checksums(self) except -1:
        """Stores in each AOF2 batch the checksum that writing it has computed."""
        cdef size_t index
        cdef AofBatch batch
        for index in range(self.count):
            if self.sources[index].kind == SOURCE_AOF:
                batch = <AofBatch>self.chunks[index]
                batch.crc = ~self.sources[index].state
                batch.has_crc = True
        return 0

    def __dealloc__(self):
        PyMem_RawFree(self.sources)


cdef bint has_batch(tuple chunks):
    for item in chunks:
        if type(item) is AofBatch or type(item) is KeratinBatch:
            return True
    return False


cdef object write_sources(int fd, uint64_t offset, tuple chunks, bint sync):
    cdef Sources sources = Sources(chunks)
    check_range(offset, sources.total_bytes)
    cdef source *inputs = sources.sources
    cdef size_t count = sources.count
    cdef write_outcome outcome = write_outcome(0, 0, 0)
    cdef source_scratch *scratch = <source_scratch *>PyMem_RawMalloc(sizeof(source_scratch))
    if scratch == NULL:
        raise MemoryError
    scratch.is_synced = sync
    with nogil:
        source_put_all(fd, offset, inputs, count, scratch, &outcome)
        if sync and outcome.write_errno == 0:
            outcome.sync_errno = writing_sync(fd)
    PyMem_RawFree(scratch)
    if outcome.write_errno == 0:
        sources.note_checksums()
    return WriteOutcome(outcome.written, outcome.write_errno, outcome.sync_errno)
