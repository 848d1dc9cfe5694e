/* Loops over Keratin records: header, headers block, payload, crc32c; no padding. */
#ifndef LAKEBED_KERATIN_H
#define LAKEBED_KERATIN_H

#include "bytes.h"
#include "crc32c.h"
#include "lakebed_constants.h"

typedef struct {
    uint64_t *positions;
    uint64_t *offsets;
    uint64_t *timestamps_ms;
    uint16_t *flags;
    uint32_t *header_lengths;
    uint32_t *payload_lengths;
    size_t count;
} keratin_columns;

/* Both parts are at most UINT32_MAX bytes, so this cannot overflow. */
static inline uint64_t keratin_record_bytes(uint64_t headers_bytes, uint64_t payload_bytes) {
    return KERATIN_RECORD_SIZE + headers_bytes + payload_bytes + KERATIN_TRAILER_SIZE;
}

/* The crc32c of a whole record: of everything between its magic and its trailer. */
static inline uint32_t keratin_checksum(const uint8_t *record, uint64_t bytes) {
    const uint64_t first = KERATIN_RECORD_VERSION_OFFSET;
    return ~crc32c_update(
        ~UINT32_C(0), record + first, (size_t)(bytes - KERATIN_TRAILER_SIZE - first));
}

/* How many records fit in `capacity` bytes; their sum is put into `bytes`. `headers` may be NULL. */
static size_t keratin_fitting(
    const span *payloads, const span *headers, size_t count, uint64_t capacity, uint64_t *bytes) {
    size_t fitting = 0;
    *bytes = 0;
    for (; fitting < count; fitting++) {
        uint64_t next =
            keratin_record_bytes(headers ? headers[fitting].length : 0, payloads[fitting].length);
        if (next > capacity - *bytes) break;
        *bytes += next;
    }
    return fitting;
}

/* Writes one record but its trailer; returns its size. */
static uint64_t keratin_copy_record(
    uint8_t *record, const span *headers, const span *payload, uint64_t offset,
    uint64_t timestamp_ms, uint16_t flags) {
    size_t header_length = headers ? headers->length : 0;
    uint8_t *body = record + KERATIN_RECORD_SIZE;
    store_big16(record + KERATIN_RECORD_MAGIC_OFFSET, KERATIN_MAGIC);
    store_big16(record + KERATIN_RECORD_VERSION_OFFSET, KERATIN_VERSION);
    store_big16(record + KERATIN_RECORD_FLAGS_OFFSET, flags);
    store_big16(record + KERATIN_RECORD_RESERVED_OFFSET, 0);
    store_big32(record + KERATIN_RECORD_HEADER_LENGTH_OFFSET, (uint32_t)header_length);
    store_big32(record + KERATIN_RECORD_PAYLOAD_LENGTH_OFFSET, (uint32_t)payload->length);
    store_big64(record + KERATIN_RECORD_TIMESTAMP_MS_OFFSET, timestamp_ms);
    store_big64(record + KERATIN_RECORD_OFFSET_OFFSET, offset);
    if (header_length) memcpy(body, headers->data, header_length);
    if (payload->length) memcpy(body + header_length, payload->data, payload->length);
    return keratin_record_bytes(header_length, payload->length);
}

/* Writes `count` records to `out`, which has room for them. With `offsets.step` 0 they count up
 * from its one value. A payload may change meanwhile: its checksum is taken from the copy. */
static void keratin_encode_records(
    uint8_t *out, const span *payloads, const span *headers, size_t count, numbers64 offsets,
    numbers64 timestamps_ms, numbers16 flags, uint64_t *positions) {
    uint64_t end = 0;
    for (size_t first = 0; first < count; first += ENCODE_GROUP_COUNT) {
        size_t left = count - first;
        size_t group = left < ENCODE_GROUP_COUNT ? left : ENCODE_GROUP_COUNT;
        for (size_t i = first; i < first + group; i++) {
            positions[i] = end;
            end += keratin_copy_record(
                out + end, headers ? &headers[i] : NULL, &payloads[i],
                offsets.step ? offsets.values[i] : offsets.values[0] + i,
                timestamps_ms.values[i * timestamps_ms.step], flags.values[i * flags.step]);
        }
        for (size_t i = first; i < first + group; i++) {
            uint8_t *record = out + positions[i];
            uint64_t bytes = (i + 1 < first + group ? positions[i + 1] : end) - positions[i];
            store_big32(
                record + bytes - KERATIN_TRAILER_SIZE + KERATIN_TRAILER_CRC32C_OFFSET,
                keratin_checksum(record, bytes));
        }
    }
}

/* Adds good records to the columns until they hold `count_max`. `position` moves behind the last
 * good one. A record's lengths are read once, so that bytes which change meanwhile cannot lead
 * outside the buffer. */
static int keratin_scan_records(
    const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count_max,
    keratin_columns *columns) {
    const uint64_t magic_bytes = KERATIN_RECORD_MAGIC_BYTES;
    size_t count = columns->count;
    uint64_t offset = *position;
    int stop;
    for (;;) {
        const uint8_t *record = buffer + offset;
        uint64_t left = end - offset;
        if (count == count_max) {
            stop = STOP_COUNT;
            break;
        }
        if (left < magic_bytes) {
            stop = all_zero(record, (size_t)left) ? STOP_END : STOP_CUT;
            break;
        }
        uint16_t magic = load_big16(record + KERATIN_RECORD_MAGIC_OFFSET);
        if (magic != KERATIN_MAGIC) {
            stop = magic == 0 ? STOP_END : STOP_BAD_HEADER;
            break;
        }
        if (left < KERATIN_RECORD_SIZE) {
            stop = STOP_CUT;
            break;
        }
        if (load_big16(record + KERATIN_RECORD_VERSION_OFFSET) != KERATIN_VERSION) {
            stop = STOP_BAD_HEADER;
            break;
        }
        uint32_t header_length = load_big32(record + KERATIN_RECORD_HEADER_LENGTH_OFFSET);
        uint32_t payload_length = load_big32(record + KERATIN_RECORD_PAYLOAD_LENGTH_OFFSET);
        uint64_t bytes = keratin_record_bytes(header_length, payload_length);
        if (bytes > left) {
            stop = STOP_CUT;
            break;
        }
        const uint8_t *trailer = record + bytes - KERATIN_TRAILER_SIZE;
        if (keratin_checksum(record, bytes) != load_big32(trailer + KERATIN_TRAILER_CRC32C_OFFSET)) {
            stop = STOP_BAD_CHECKSUM;
            break;
        }
        columns->positions[count] = offset;
        columns->offsets[count] = load_big64(record + KERATIN_RECORD_OFFSET_OFFSET);
        columns->timestamps_ms[count] = load_big64(record + KERATIN_RECORD_TIMESTAMP_MS_OFFSET);
        columns->flags[count] = load_big16(record + KERATIN_RECORD_FLAGS_OFFSET);
        columns->header_lengths[count] = header_length;
        columns->payload_lengths[count] = payload_length;
        count++;
        offset += bytes;
    }
    columns->count = count;
    *position = offset;
    return stop;
}

#endif
