/* The first whole AOF2 record among bytes that may be anything.
 *
 * Every eighth byte may be the start of a record whose length is whatever stands there, so summing
 * each candidate's payload would be quadratic. Instead the CRC state at marks in equal distances
 * is kept: the state at any place is one short update away, and two states give the CRC of what
 * lies between them. The marks are made as far as a candidate reaches, and there are so few that
 * they take MARKS_COUNT_MAX words whatever the buffer's length. */
#ifndef LAKEBED_AOF_FIND_H
#define LAKEBED_AOF_FIND_H

#include "aof.h"

enum {
    AOF_NOT_FOUND = -1,
    MARK_BYTES_MIN = 128,
    MARKS_COUNT_MAX = 1 << 23,
    DIRECT_BYTES_MAX = 512, /* up to here the payload itself is summed: faster, and no marks */
};

typedef struct {
    const uint8_t *data;
    uint64_t *states; /* the state before each mark */
    size_t count;     /* of them are known */
    uint64_t distance;
} crc64_marks;

/* The distance of marks in so many bytes: a power of two. */
static uint64_t marks_distance(uint64_t length) {
    uint64_t distance = MARK_BYTES_MIN;
    while (length / distance >= MARKS_COUNT_MAX) distance *= 2;
    return distance;
}

/* How many marks there can be in so many bytes. */
static size_t marks_count(uint64_t length) {
    return (size_t)(length / marks_distance(length) + 1);
}

/* The state over `data[0:offset]`. */
static uint64_t marks_state(crc64_marks *marks, uint64_t offset) {
    size_t index = (size_t)(offset / marks->distance);
    for (; marks->count <= index; marks->count++) {
        size_t before = marks->count - 1;
        marks->states[marks->count] = crc64_update(
            marks->states[before], marks->data + before * marks->distance,
            (size_t)marks->distance);
    }
    uint64_t start = index * marks->distance;
    return crc64_update(marks->states[index], marks->data + start, (size_t)(offset - start));
}

/* The CRC of `data[offset:offset + length]`. */
static uint64_t marks_crc(crc64_marks *marks, uint64_t offset, uint32_t length) {
    if (length <= DIRECT_BYTES_MAX)
        return ~crc64_update(~UINT64_C(0), marks->data + offset, length);
    /* What a state of all ones would have become, had the sum begun at the offset. */
    uint64_t before = crc64_shift(marks_state(marks, offset) ^ ~UINT64_C(0), length);
    return ~(marks_state(marks, offset + length) ^ before);
}

/* The offset in `data` of the first good record of `data[0:length]` on an 8-byte boundary;
 * `states` has room for marks_count(length). Bytes may change meanwhile: a length is read once. */
static int64_t aof_find_record(const uint8_t *data, uint64_t length, uint64_t *states) {
    crc64_marks marks = {data, states, 1, marks_distance(length)};
    states[0] = ~UINT64_C(0);
    for (uint64_t offset = 0; length - offset >= AOF_RECORD_SIZE; offset += AOF_ALIGNMENT) {
        const uint8_t *record = data + offset;
        uint32_t payload_bytes = load_little32(record + AOF_RECORD_LENGTH_OFFSET);
        if (payload_bytes == 0 || aof_record_bytes(payload_bytes) > length - offset) continue;
        uint64_t crc = marks_crc(&marks, offset + AOF_RECORD_SIZE, payload_bytes);
        if (crc64_fold(crc) == load_little32(record + AOF_RECORD_CHECKSUM_OFFSET))
            return (int64_t)offset;
    }
    return AOF_NOT_FOUND;
}

#endif
