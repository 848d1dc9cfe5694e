/* Loops over the records section of a Kafka record batch (version 2), not compressed.
 *
 *   record := length varint, attributes u8, timestamp delta varlong, offset delta varint,
 *             key, value, header count varint, header{count}
 *   key, value := length varint (-1: null), bytes
 *   header := name length varint, name, value
 *
 * A varint has 7 bits a byte, the lowest first; its value is zigzag: 0, -1, 1, -2 ... */
#ifndef LAKEBED_RECORD_BATCH_H
#define LAKEBED_RECORD_BATCH_H

#include "bytes.h"
#include "lakebed_constants.h"

typedef struct {
    uint64_t *offsets;
    int64_t *timestamps_ms;
    uint32_t *key_positions;
    int32_t *key_lengths;
    uint32_t *value_positions;
    int32_t *value_lengths;
    uint32_t *header_positions;
    uint32_t *header_lengths;
    uint32_t *header_counts;
    size_t count;
} batch_columns;

/* Messages to encode: `keys` and `headers` may be NULL. Data of NULL is a null, and among the
 * headers none at all. Timestamps are one for all (step 0) or one each (step 1). */
typedef struct {
    const span *values;
    const span *keys;
    const span *headers;
    const int64_t *timestamps_ms;
    size_t timestamp_step;
    int64_t first_timestamp_ms;
    size_t count;
} batch_messages;

/* Where reading is, and where it must not go: all bytes are taken through this. */
typedef struct {
    const uint8_t *at;
    const uint8_t *limit;
} batch_cursor;

/* Reads one number of at most `width` bits; `BATCH_WHOLE`, or what is wrong. Every byte is loaded
 * once, so that bytes which change meanwhile cannot lead outside. */
static inline int batch_read_number(batch_cursor *cursor, unsigned width, int64_t *value) {
    uint64_t word = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (cursor->at == cursor->limit) return BATCH_CUT;
        uint8_t byte = *cursor->at++;
        uint64_t bits = byte & 0x7F;
        if (shift + 7 > width && bits >> (width - shift)) return BATCH_BAD_NUMBER;
        word |= bits << shift;
        if (byte < 0x80) break;
        if (shift + 7 >= width) return BATCH_BAD_NUMBER;
    }
    *value = (int64_t)((word >> 1) ^ (~(word & 1) + 1));
    return BATCH_WHOLE;
}

/* The same inside of a record, which is all there: a number that goes on behind its end is bad. */
static inline int batch_read_inner(batch_cursor *cursor, unsigned width, int64_t *value) {
    int problem = batch_read_number(cursor, width, value);
    return problem == (int)BATCH_CUT ? (int)BATCH_BAD_LENGTH : problem;
}

/* Reads a length from `least` (0, or -1 for what may be null) on, and steps over its bytes. */
static inline int batch_read_bytes(
    batch_cursor *cursor, int64_t least, int64_t *length, const uint8_t **data) {
    int problem = batch_read_inner(cursor, 32, length);
    if (problem) return problem;
    if (*length < least || *length > cursor->limit - cursor->at) return BATCH_BAD_LENGTH;
    *data = cursor->at;
    if (*length > 0) cursor->at += *length;
    return BATCH_WHOLE;
}

/* Steps over `count` headers. Each takes two bytes at least: the record's end bounds the loop. */
static int batch_skip_headers(batch_cursor *cursor, int64_t count) {
    int64_t length;
    const uint8_t *data;
    for (int64_t i = 0; i < count; i++) {
        int problem = batch_read_bytes(cursor, 0, &length, &data);
        if (!problem) problem = batch_read_bytes(cursor, -1, &length, &data);
        if (problem) return problem;
    }
    return BATCH_WHOLE;
}

/* Reads the record at the cursor into row `row` of the columns. `least_delta` is the smallest
 * offset delta that it may have, and becomes that of the next. */
static inline int batch_read_record(
    batch_cursor *cursor, const uint8_t *buffer, uint64_t first_offset, int64_t first_timestamp_ms,
    int64_t *least_delta, batch_columns *columns, size_t row) {
    int64_t length, timestamp_ms, delta, key_length, value_length, header_count;
    const uint8_t *key, *value;
    int problem;
    if (cursor->limit - cursor->at < (ptrdiff_t)BATCH_RECORD_BYTES_MIN) return BATCH_CUT;
    if ((problem = batch_read_number(cursor, 32, &length))) return problem;
    if (length < 1) return BATCH_BAD_LENGTH;
    if (length > cursor->limit - cursor->at) return BATCH_CUT;
    batch_cursor inner = {cursor->at + 1, cursor->at + length}; /* behind the attributes */
    if ((problem = batch_read_inner(&inner, 64, &delta))) return problem;
    if (__builtin_add_overflow(first_timestamp_ms, delta, &timestamp_ms))
        return BATCH_BAD_TIMESTAMP;
    if ((problem = batch_read_inner(&inner, 32, &delta))) return problem;
    if (delta < *least_delta) return BATCH_BAD_OFFSET;
    if ((problem = batch_read_bytes(&inner, -1, &key_length, &key))) return problem;
    if ((problem = batch_read_bytes(&inner, -1, &value_length, &value))) return problem;
    if ((problem = batch_read_inner(&inner, 32, &header_count))) return problem;
    const uint8_t *headers = inner.at;
    if (header_count < 0) return BATCH_BAD_LENGTH;
    if ((problem = batch_skip_headers(&inner, header_count))) return problem;
    if (inner.at != inner.limit) return BATCH_BAD_LENGTH;
    *least_delta = delta + 1;
    columns->offsets[row] = first_offset + (uint64_t)delta;
    columns->timestamps_ms[row] = timestamp_ms;
    columns->key_positions[row] = (uint32_t)(key - buffer);
    columns->key_lengths[row] = (int32_t)key_length;
    columns->value_positions[row] = (uint32_t)(value - buffer);
    columns->value_lengths[row] = (int32_t)value_length;
    columns->header_positions[row] = (uint32_t)(headers - buffer);
    columns->header_lengths[row] = (uint32_t)(inner.limit - headers);
    columns->header_counts[row] = (uint32_t)header_count;
    cursor->at = inner.limit;
    return BATCH_WHOLE;
}

/* Reads `count` records, which must fill `[*position, end)`. The columns have room for as many as
 * can be in so many bytes. `position` moves behind the last good one. */
static int batch_decode_records(
    const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count,
    uint64_t first_offset, int64_t first_timestamp_ms, batch_columns *columns) {
    batch_cursor cursor = {buffer + *position, buffer + end};
    int64_t least_delta = 0;
    int stop = BATCH_WHOLE;
    columns->count = 0;
    while (columns->count < count) {
        stop = batch_read_record(
            &cursor, buffer, first_offset, first_timestamp_ms, &least_delta, columns,
            columns->count);
        if (stop) return stop;
        columns->count++;
        *position = (uint64_t)(cursor.at - buffer);
    }
    return cursor.at == cursor.limit ? stop : (int)BATCH_LEFT_OVER;
}

static inline uint64_t batch_zigzag(int64_t value) {
    return ((uint64_t)value << 1) ^ (value < 0 ? ~UINT64_C(0) : 0);
}

static inline uint64_t batch_number_bytes(int64_t value) {
    uint64_t word = batch_zigzag(value);
    uint64_t bytes = 1;
    while (word >>= 7) bytes++;
    return bytes;
}

static inline uint8_t *batch_write_number(uint8_t *at, int64_t value) {
    uint64_t word = batch_zigzag(value);
    for (; word > 0x7F; word >>= 7) *at++ = (uint8_t)(word | 0x80);
    *at++ = (uint8_t)word;
    return at;
}

/* A span's length, or -1 for a null. */
static inline int64_t batch_length(const span *data) {
    return data && data->data ? (int64_t)data->length : -1;
}

static inline uint64_t batch_bytes_bytes(const span *data) {
    int64_t length = batch_length(data);
    return batch_number_bytes(length) + (length > 0 ? (uint64_t)length : 0);
}

static inline uint8_t *batch_write_bytes(uint8_t *at, const span *data) {
    int64_t length = batch_length(data);
    at = batch_write_number(at, length);
    if (length > 0) {
        memcpy(at, data->data, (size_t)length);
        at += length;
    }
    return at;
}

/* Wraps around where the caller did not check with `batch_far_timestamp`. */
static inline int64_t batch_timestamp_delta(const batch_messages *messages, size_t i) {
    return (int64_t)((uint64_t)messages->timestamps_ms[i * messages->timestamp_step] -
                     (uint64_t)messages->first_timestamp_ms);
}

/* The first message whose timestamp has no 64-bit distance from the first, or the count. */
static size_t batch_far_timestamp(const batch_messages *messages) {
    int64_t delta;
    for (size_t i = 0; i < messages->count; i++)
        if (__builtin_sub_overflow(
                messages->timestamps_ms[i * messages->timestamp_step],
                messages->first_timestamp_ms, &delta))
            return i;
    return messages->count;
}

/* A record behind its length. Three parts of at most INT32_MAX bytes: no overflow. */
static inline uint64_t batch_body_bytes(const batch_messages *messages, size_t i) {
    const span *headers = messages->headers ? &messages->headers[i] : NULL;
    return 1 + batch_number_bytes(batch_timestamp_delta(messages, i)) +
           batch_number_bytes((int64_t)i) +
           batch_bytes_bytes(messages->keys ? &messages->keys[i] : NULL) +
           batch_bytes_bytes(&messages->values[i]) +
           (headers && headers->length ? headers->length : 1);
}

/* How many records fit in `capacity` bytes, of which there are INT32_MAX at most; their sum is put
 * into `bytes`. */
static size_t batch_fitting(const batch_messages *messages, uint64_t capacity, uint64_t *bytes) {
    size_t fitting = 0;
    *bytes = 0;
    for (; fitting < messages->count; fitting++) {
        uint64_t body = batch_body_bytes(messages, fitting);
        uint64_t next = batch_number_bytes((int64_t)body) + body;
        if (next > capacity - *bytes) break;
        *bytes += next;
    }
    return fitting;
}

/* Writes the first `count` records to `out`, which has room for them. */
static void batch_encode_records(uint8_t *out, const batch_messages *messages, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const span *headers = messages->headers ? &messages->headers[i] : NULL;
        out = batch_write_number(out, (int64_t)batch_body_bytes(messages, i));
        *out++ = 0;
        out = batch_write_number(out, batch_timestamp_delta(messages, i));
        out = batch_write_number(out, (int64_t)i);
        out = batch_write_bytes(out, messages->keys ? &messages->keys[i] : NULL);
        out = batch_write_bytes(out, &messages->values[i]);
        if (headers && headers->length) {
            memcpy(out, headers->data, headers->length);
            out += headers->length;
        } else {
            *out++ = 0;
        }
    }
}

#endif
