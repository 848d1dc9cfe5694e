/* The parts of plain Keratin records: key, value and headers, by where they stand.
 *
 *   block    := empty | version u8, flags u8, [key], [producer], count u16, header{count}
 *   key      := length u32, bytes
 *   header   := name length u16, name, value length u32 (all ones: null), value
 *
 * Every length is loaded once and checked against its block's end before it is used. */
#ifndef LAKEBED_KERATIN_FIELDS_H
#define LAKEBED_KERATIN_FIELDS_H

#include "bytes.h"
#include "keratin.h"
#include "lakebed_constants.h"
#include "record_batch.h"

/* Beside the stops that Python knows: a record is not inside the buffer; the columns of the headers
 * have no room for those of the next message, and must have for `headers->needed`. */
enum { FIELDS_OUTSIDE = -1, FIELDS_ROOM = -2 };

typedef struct {
    const uint8_t *buffer;
    uint64_t buffer_bytes;
    const uint64_t *positions;
    const uint32_t *header_lengths;
    const uint32_t *payload_lengths;
    const uint16_t *flags;
    size_t count;
} fields_records;

typedef struct {
    uint64_t *key_positions;
    uint64_t *value_positions;
    int32_t *key_lengths;
    int32_t *value_lengths;
    uint32_t *header_counts;
    size_t count;
} fields_columns;

typedef struct {
    uint64_t *name_positions;
    uint64_t *value_positions;
    int32_t *name_lengths;
    int32_t *value_lengths;
    size_t count;
    size_t room;
    size_t needed;
} header_columns;

/* Whether `more` headers have room. */
static inline int headers_have_room(header_columns *headers, size_t more) {
    headers->needed = headers->count + more;
    return headers->needed <= headers->room;
}

static inline void headers_add(
    header_columns *headers, size_t row, uint64_t name, int64_t name_length, uint64_t value,
    int64_t value_length) {
    headers->name_positions[row] = name;
    headers->name_lengths[row] = (int32_t)name_length;
    headers->value_positions[row] = value;
    headers->value_lengths[row] = (int32_t)value_length;
}

/* Reads `count` headers, which must end at `limit`; they count only if all are good. */
static int fields_read_headers(
    const uint8_t *buffer, const uint8_t *at, const uint8_t *limit, size_t count,
    header_columns *headers) {
    const uint64_t fixed = KERATIN_NAME_SIZE + KERATIN_VALUE_SIZE;
    if (count * fixed > (uint64_t)(limit - at)) return BLOCK_CUT;
    if (!headers_have_room(headers, count)) return FIELDS_ROOM;
    for (size_t i = 0; i < count; i++) {
        if ((uint64_t)(limit - at) < fixed) return BLOCK_CUT;
        uint64_t name_length = load_big16(at + KERATIN_NAME_LENGTH_OFFSET);
        const uint8_t *name = at + KERATIN_NAME_SIZE;
        if (name_length + KERATIN_VALUE_SIZE > (uint64_t)(limit - name)) return BLOCK_CUT;
        uint64_t length = load_big32(name + name_length + KERATIN_VALUE_LENGTH_OFFSET);
        const uint8_t *value = name + name_length + KERATIN_VALUE_SIZE;
        int64_t value_length = -1;
        if (length != KERATIN_NULL_LENGTH) {
            if (length > (uint64_t)(limit - value)) return BLOCK_CUT;
            if (length > INT32_MAX) return BLOCK_TOO_LONG;
            value_length = (int64_t)length;
        }
        headers_add(
            headers, headers->count + i, (uint64_t)(name - buffer), (int64_t)name_length,
            (uint64_t)(value - buffer), value_length);
        at = value + (value_length > 0 ? value_length : 0);
    }
    if (at != limit) return BLOCK_LEFT_OVER;
    headers->count += count;
    return BLOCK_WHOLE;
}

/* Reads the block `[at, limit)`, which is not empty, into row `row`. */
static int fields_read_block(
    const uint8_t *buffer, const uint8_t *at, const uint8_t *limit, fields_columns *columns,
    size_t row, header_columns *headers) {
    if ((uint64_t)(limit - at) < KERATIN_BLOCK_SIZE) return BLOCK_CUT;
    if (at[KERATIN_BLOCK_VERSION_OFFSET] > KERATIN_BLOCK_VERSION) return BLOCK_BAD_VERSION;
    uint8_t flags = at[KERATIN_BLOCK_FLAGS_OFFSET];
    at += KERATIN_BLOCK_SIZE;
    uint64_t key = (uint64_t)(at - buffer);
    int32_t key_length = -1;
    if (flags & KERATIN_HAS_KEY) {
        if ((uint64_t)(limit - at) < KERATIN_KEY_SIZE) return BLOCK_CUT;
        uint64_t length = load_big32(at + KERATIN_KEY_LENGTH_OFFSET);
        at += KERATIN_KEY_SIZE;
        if (length > (uint64_t)(limit - at)) return BLOCK_CUT;
        if (length > INT32_MAX) return BLOCK_TOO_LONG;
        key = (uint64_t)(at - buffer);
        key_length = (int32_t)length;
        at += length;
    }
    if (flags & KERATIN_HAS_PRODUCER) {
        if ((uint64_t)(limit - at) < KERATIN_PRODUCER_SIZE) return BLOCK_CUT;
        at += KERATIN_PRODUCER_SIZE;
    }
    if ((uint64_t)(limit - at) < KERATIN_HEADERS_SIZE) return BLOCK_CUT;
    uint16_t count = load_big16(at + KERATIN_HEADERS_HEADER_COUNT_OFFSET);
    at += KERATIN_HEADERS_SIZE;
    columns->key_positions[row] = key;
    columns->key_lengths[row] = key_length;
    columns->header_counts[row] = count;
    if (count == 0) return at == limit ? (int)BLOCK_WHOLE : (int)BLOCK_LEFT_OVER;
    return fields_read_headers(buffer, at, limit, count, headers);
}

/* Reads the records from row `columns->count` on; the columns have room for all of them. */
static int fields_read_records(
    const fields_records *records, fields_columns *columns, header_columns *headers) {
    const uint8_t *buffer = records->buffer;
    for (size_t i = columns->count; i < records->count; i++) {
        uint64_t position = records->positions[i];
        uint64_t block_bytes = records->header_lengths[i];
        uint64_t payload_bytes = records->payload_lengths[i];
        uint64_t bytes = keratin_record_bytes(block_bytes, payload_bytes);
        columns->count = i;
        if (bytes > records->buffer_bytes || position > records->buffer_bytes - bytes)
            return FIELDS_OUTSIDE;
        uint64_t block = position + KERATIN_RECORD_SIZE;
        if (block_bytes == 0) {
            columns->key_positions[i] = block;
            columns->key_lengths[i] = -1;
            columns->header_counts[i] = 0;
        } else {
            int stop = fields_read_block(
                buffer, buffer + block, buffer + block + block_bytes, columns, i, headers);
            if (stop != (int)BLOCK_WHOLE) return stop;
        }
        int is_null = (records->flags[i] & KERATIN_TOMBSTONE) != 0;
        if (!is_null && payload_bytes > INT32_MAX) {
            headers->count -= columns->header_counts[i];
            return BLOCK_TOO_LONG;
        }
        columns->value_positions[i] = block + block_bytes;
        columns->value_lengths[i] = is_null ? -1 : (int32_t)payload_bytes;
    }
    columns->count = records->count;
    return BLOCK_WHOLE;
}

/* Sections of headers in the records of a record batch, as `record_batch_decode` gives them. */
typedef struct {
    const uint8_t *buffer;
    uint64_t buffer_bytes;
    const uint32_t *positions;
    const uint32_t *lengths;
    const uint32_t *counts;
    size_t count;
} header_sections;

static int sections_read_one(
    const uint8_t *buffer, batch_cursor cursor, size_t count, header_columns *headers) {
    if (count > (uint64_t)(cursor.limit - cursor.at) / BATCH_HEADER_BYTES_MIN)
        return BATCH_BAD_LENGTH;
    if (!headers_have_room(headers, count)) return FIELDS_ROOM;
    for (size_t i = 0; i < count; i++) {
        int64_t name_length, value_length;
        const uint8_t *name, *value;
        int problem = batch_read_bytes(&cursor, 0, &name_length, &name);
        if (!problem) problem = batch_read_bytes(&cursor, -1, &value_length, &value);
        if (problem) return problem;
        headers_add(
            headers, headers->count + i, (uint64_t)(name - buffer), name_length,
            (uint64_t)(value - buffer), value_length);
    }
    if (cursor.at != cursor.limit) return BATCH_BAD_LENGTH;
    headers->count += count;
    return BATCH_WHOLE;
}

/* Reads the sections from `*done` on, which counts those that were read. */
static int sections_read(const header_sections *sections, size_t *done, header_columns *headers) {
    for (; *done < sections->count; ++*done) {
        uint64_t position = sections->positions[*done];
        uint64_t length = sections->lengths[*done];
        uint32_t count = sections->counts[*done];
        if (position + length > sections->buffer_bytes) return FIELDS_OUTSIDE;
        if (length == 0 && count == 0) continue;
        batch_cursor cursor = {
            sections->buffer + position, sections->buffer + position + length};
        int stop = sections_read_one(sections->buffer, cursor, count, headers);
        if (stop != (int)BATCH_WHOLE) return stop;
    }
    return BATCH_WHOLE;
}

#endif
