"""What the compiled kernels take from the C headers, which say what each does."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from *:
    Py_ssize_t PY_SSIZE_T_MAX


cdef extern from "lakebed_constants.h":
    const char *LAKEBED_SOURCE_HASH
    int STOP_COUNT
    size_t WRITE_BYTES_MAX


cdef extern from "cpu_features.h":
    int FEATURE_SSE42, FEATURE_PCLMUL, FEATURE_VPCLMULQDQ
    int features_in_use
    int features_detected()


cdef extern from "bytes.h":
    ctypedef struct span:
        const uint8_t *data
        size_t length
    ctypedef struct numbers64:
        const uint64_t *values
        size_t step
    ctypedef struct numbers16:
        const uint16_t *values
        size_t step


cdef extern from "crc32c.h":
    void crc32c_prepare()
    uint32_t crc32c_update(uint32_t state, const uint8_t *data, size_t length) nogil


cdef extern from "crc32_shift.h":
    void crc32_prepare_powers()
    uint32_t crc32_shift(uint32_t word, uint64_t length) nogil
    uint32_t crc32c_shift(uint32_t word, uint64_t length) nogil


cdef extern from "crc64nvme.h":
    void crc64_prepare()
    uint64_t crc64_update(uint64_t state, const uint8_t *data, size_t length) nogil
    uint32_t crc64_fold(uint64_t crc) nogil
    uint64_t crc64_shift(uint64_t word, uint64_t length) nogil


cdef extern from "aof.h":
    uint64_t aof_record_bytes(uint64_t payload_bytes) nogil
    ctypedef struct aof_columns:
        uint64_t *offsets
        uint32_t *lengths
        uint64_t *timestamps
        uint64_t *ext_ids
        size_t count
    size_t aof_fitting(
        const span *payloads, size_t count, uint64_t capacity, uint64_t *size) nogil
    uint64_t aof_encode_records(
        uint8_t *out, const span *payloads, size_t count, numbers64 timestamps, numbers64 ext_ids,
        uint64_t *offsets, uint64_t state) nogil
    int aof_scan_records(
        const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count_max,
        aof_columns *columns) nogil


cdef extern from "aof_find.h":
    size_t marks_count(uint64_t length) nogil
    int64_t aof_find_record(const uint8_t *data, uint64_t length, uint64_t *states) nogil


cdef extern from "keratin.h":
    ctypedef struct keratin_columns:
        uint64_t *positions
        uint64_t *offsets
        uint64_t *timestamps_ms
        uint16_t *flags
        uint32_t *header_lengths
        uint32_t *payload_lengths
        size_t count
    uint64_t keratin_record_bytes(uint64_t headers_bytes, uint64_t payload_bytes) nogil
    size_t keratin_fitting(
        const span *payloads, const span *headers, size_t count, uint64_t capacity,
        uint64_t *size) nogil
    void keratin_encode_records(
        uint8_t *out, const span *payloads, const span *headers, size_t count, numbers64 offsets,
        numbers64 timestamps_ms, numbers16 flags, uint64_t *positions) nogil
    int keratin_scan_records(
        const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count_max,
        keratin_columns *columns) nogil


cdef extern from "record_batch.h":
    size_t BATCH_RECORD_BYTES_MIN
    ctypedef struct batch_columns:
        uint64_t *offsets
        int64_t *timestamps_ms
        uint32_t *key_positions
        int32_t *key_lengths
        uint32_t *value_positions
        int32_t *value_lengths
        uint32_t *header_positions
        uint32_t *header_lengths
        uint32_t *header_counts
        size_t count
    ctypedef struct batch_messages:
        const span *values
        const span *keys
        const span *headers
        const int64_t *timestamps_ms
        size_t timestamp_step
        int64_t first_timestamp_ms
        size_t count
    int batch_decode_records(
        const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count,
        uint64_t first_offset, int64_t first_timestamp_ms, batch_columns *columns) nogil
    size_t batch_far_timestamp(const batch_messages *messages) nogil
    size_t batch_fitting(
        const batch_messages *messages, uint64_t capacity, uint64_t *size) nogil
    void batch_encode_records(
        uint8_t *out, const batch_messages *messages, size_t count) nogil


cdef extern from "gather.h":
    enum:
        GATHER_WHOLE
        GATHER_OUTSIDE
    ctypedef struct gather_slices:
        const uint8_t *buffer
        uint64_t buffer_bytes
        const void *positions
        const uint32_t *lengths
        size_t count
        int has_wide_positions
        int has_signed_lengths
    int gather_measure(
        const gather_slices *slices, int32_t *offsets, size_t *null_count, size_t *index,
        uint64_t *total) nogil
    void gather_validity(const gather_slices *slices, uint8_t *validity) nogil
    int gather_copy(const gather_slices *slices, const int32_t *offsets, uint8_t *out) nogil


cdef extern from "keratin_fields.h":
    enum:
        FIELDS_OUTSIDE
        FIELDS_ROOM
    ctypedef struct fields_records:
        const uint8_t *buffer
        uint64_t buffer_bytes
        const uint64_t *positions
        const uint32_t *header_lengths
        const uint32_t *payload_lengths
        const uint16_t *flags
        size_t count
    ctypedef struct fields_columns:
        uint64_t *key_positions
        uint64_t *value_positions
        int32_t *key_lengths
        int32_t *value_lengths
        uint32_t *header_counts
        size_t count
    ctypedef struct header_columns:
        uint64_t *name_positions
        uint64_t *value_positions
        int32_t *name_lengths
        int32_t *value_lengths
        size_t count
        size_t room
        size_t needed
    ctypedef struct header_sections:
        const uint8_t *buffer
        uint64_t buffer_bytes
        const uint32_t *positions
        const uint32_t *lengths
        const uint32_t *counts
        size_t count
    int fields_read_records(
        const fields_records *records, fields_columns *columns, header_columns *headers) nogil
    int sections_read(
        const header_sections *sections, size_t *done, header_columns *headers) nogil


cdef extern from "keratin_producers.h":
    ctypedef struct producer_runs:
        uint64_t *producer_ids
        uint64_t *message_counts
        uint64_t *base_offsets
        uint32_t *first_sequences
        uint16_t *epochs
        size_t count
    int producers_read_records(
        const fields_records *records, const uint64_t *offsets, producer_runs *runs,
        size_t *index) nogil


cdef extern from "slices.h":
    enum:
        SECTIONS_WHOLE
        SECTIONS_COUNT
    size_t slices_spans(const gather_slices *slices, span *spans) nogil
    int sections_measure(
        const uint32_t *counts, size_t count, const span *names, const span *values,
        size_t header_count, int32_t *offsets, uint64_t *total) nogil
    void sections_write(
        const uint32_t *counts, size_t count, const span *names, const span *values,
        uint8_t *out) nogil
    uint32_t murmur2_hash(const uint8_t *data, size_t length) nogil
    void murmur2_spans(const span *spans, size_t count, uint32_t *hashes) nogil


cdef extern from "writing.h":
    ctypedef struct write_outcome:
        uint64_t written
        int write_errno
        int sync_errno
    size_t writing_scratch_bytes(const span *chunks, size_t count) nogil
    int writing_put_chunks(
        int fd, uint64_t offset, const span *chunks, size_t count, uint8_t *scratch,
        write_outcome *outcome) nogil
    int writing_put_zeros(int fd, uint64_t offset, uint64_t length, write_outcome *outcome) nogil
    int writing_sync(int fd) nogil


cdef extern from "sources.h":
    enum:
        SCRATCH_BODY_MAX
        SOURCE_PLAIN
        SOURCE_AOF
        SOURCE_KERATIN
    ctypedef struct source:
        int kind
        span plain
        const span *payloads
        size_t count
        numbers64 timestamps
        numbers64 ext_ids
        uint64_t state
        const span *headers
        numbers64 offsets
        numbers16 flags
    ctypedef struct source_scratch:
        int is_synced
    int source_put_all(
        int fd, uint64_t offset, source *sources, size_t count, source_scratch *scratch,
        write_outcome *outcome) nogil
