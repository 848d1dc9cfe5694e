/* Loops over AOF2 runtime records: header, payload, zero padding to the alignment. */
#ifndef LAKEBED_AOF_H
#define LAKEBED_AOF_H

#include "bytes.h"
#include "crc64nvme.h"
#include "lakebed_constants.h"

/* The data's own checksum follows the records at this distance, while they are in the cache. */
enum { AOF_CHECKSUM_BYTES = 16 << 10 };

typedef struct {
    uint64_t *offsets;
    uint32_t *lengths;
    uint64_t *timestamps;
    uint64_t *ext_ids;
    size_t count;
} aof_columns;

/* A payload is at most UINT32_MAX bytes, so this cannot overflow. */
static inline uint64_t aof_record_bytes(uint64_t payload_bytes) {
    uint64_t bytes = AOF_RECORD_SIZE + payload_bytes;
    return (bytes + AOF_ALIGNMENT - 1) / AOF_ALIGNMENT * AOF_ALIGNMENT;
}

/* How many payloads fit in `capacity` bytes; their sum is put into `bytes`. */
static size_t aof_fitting(
    const span *payloads, size_t count, uint64_t capacity, uint64_t *bytes) {
    size_t fitting = 0;
    *bytes = 0;
    for (; fitting < count; fitting++) {
        uint64_t next = aof_record_bytes(payloads[fitting].length);
        if (next > capacity - *bytes) break;
        *bytes += next;
    }
    return fitting;
}

/* Copies `count` payloads to `out` and writes all of their headers but the checksums; returns the
 * offset behind the last, counted from `out` like `offset`, that of the first. */
static uint64_t aof_copy_records(
    uint8_t *out, uint64_t offset, const span *payloads, size_t first, size_t count,
    numbers64 timestamps, numbers64 ext_ids, uint64_t *offsets) {
    for (size_t i = first; i < first + count; i++) {
        uint8_t *record = out + offset;
        size_t length = payloads[i].length;
        uint64_t bytes = aof_record_bytes(length);
        memset(record + bytes - AOF_ALIGNMENT, 0, AOF_ALIGNMENT);
        memcpy(record + AOF_RECORD_SIZE, payloads[i].data, length);
        store_little32(record + AOF_RECORD_LENGTH_OFFSET, (uint32_t)length);
        store_little64(record + AOF_RECORD_TIMESTAMP_OFFSET, timestamps.values[i * timestamps.step]);
        store_little64(record + AOF_RECORD_EXT_ID_OFFSET, ext_ids.values[i * ext_ids.step]);
        offsets[i] = offset;
        offset += bytes;
    }
    return offset;
}

/* Writes `count` records to `out`, which has room for them; returns the CRC state that was `state`
 * before, moved over all bytes written. A payload may change meanwhile: its checksum is taken
 * from the copy. */
static uint64_t aof_encode_records(
    uint8_t *out, const span *payloads, size_t count, numbers64 timestamps, numbers64 ext_ids,
    uint64_t *offsets, uint64_t state) {
    uint64_t end = 0, summed = 0;
    for (size_t first = 0; first < count; first += ENCODE_GROUP_COUNT) {
        size_t left = count - first;
        size_t group = left < ENCODE_GROUP_COUNT ? left : ENCODE_GROUP_COUNT;
        end = aof_copy_records(out, end, payloads, first, group, timestamps, ext_ids, offsets);
        for (size_t i = first; i < first + group; i++) {
            uint8_t *record = out + offsets[i];
            uint64_t crc =
                ~crc64_update(~UINT64_C(0), record + AOF_RECORD_SIZE, payloads[i].length);
            store_little32(record + AOF_RECORD_CHECKSUM_OFFSET, crc64_fold(crc));
        }
        if (end - summed >= AOF_CHECKSUM_BYTES) {
            state = crc64_update(state, out + summed, (size_t)(end - summed));
            summed = end;
        }
    }
    return crc64_update(state, out + summed, (size_t)(end - summed));
}

/* Adds good records to the columns until they hold `count_max`. `position` moves behind the last
 * good one. A record's length is read once, so that bytes which change meanwhile cannot lead
 * outside the buffer. */
static int aof_scan_records(
    const uint8_t *buffer, uint64_t *position, uint64_t end, size_t count_max,
    aof_columns *columns) {
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
        if (left < AOF_RECORD_SIZE) {
            stop = all_zero(record, (size_t)left) ? STOP_END : STOP_CUT;
            break;
        }
        uint32_t length = load_little32(record + AOF_RECORD_LENGTH_OFFSET);
        if (length == 0) {
            stop = all_zero(record, AOF_RECORD_SIZE) ? STOP_END : STOP_BAD_HEADER;
            break;
        }
        uint64_t bytes = aof_record_bytes(length);
        if (bytes > left) {
            stop = STOP_CUT;
            break;
        }
        uint64_t crc = ~crc64_update(~UINT64_C(0), record + AOF_RECORD_SIZE, length);
        if (crc64_fold(crc) != load_little32(record + AOF_RECORD_CHECKSUM_OFFSET)) {
            stop = STOP_BAD_CHECKSUM;
            break;
        }
        columns->offsets[count] = offset;
        columns->lengths[count] = length;
        columns->timestamps[count] = load_little64(record + AOF_RECORD_TIMESTAMP_OFFSET);
        columns->ext_ids[count] = load_little64(record + AOF_RECORD_EXT_ID_OFFSET);
        count++;
        offset += bytes;
    }
    columns->count = count;
    *position = offset;
    return stop;
}

#endif
