/* Slices of a buffer, one behind the other, as a column of an Arrow binary array has them.
 *
 * Positions and lengths are whatever the caller has: each is loaded and checked before it is used,
 * so that numbers which change meanwhile cannot lead outside the buffer or the copy either. */
#ifndef LAKEBED_GATHER_H
#define LAKEBED_GATHER_H

#include "bytes.h"

enum { GATHER_WHOLE, GATHER_OUTSIDE, GATHER_LARGE };
enum { GATHER_CHUNK_BYTES = 32 };

/* `positions` are u64 or u32, `lengths` i32 or u32. A negative length is a null. */
typedef struct {
    const uint8_t *buffer;
    uint64_t buffer_bytes;
    const void *positions;
    const uint32_t *lengths;
    size_t count;
    int has_wide_positions;
    int has_signed_lengths;
} gather_slices;

static inline uint64_t gather_position(const gather_slices *slices, size_t i) {
    return slices->has_wide_positions ? ((const uint64_t *)slices->positions)[i]
                                      : ((const uint32_t *)slices->positions)[i];
}

static inline int gather_is_null(const gather_slices *slices, uint32_t length) {
    return slices->has_signed_lengths && (int32_t)length < 0;
}

static inline int gather_is_inside(const gather_slices *slices, uint64_t position, uint64_t length) {
    return length <= slices->buffer_bytes && position <= slices->buffer_bytes - length;
}

/* Where each slice begins in the copy, and where the last one ends: `count + 1` offsets. Stops at
 * the slice `index`, if that is not inside the buffer or makes the copy too long for an i32;
 * `total` counts it then. */
static int gather_measure(
    const gather_slices *slices, int32_t *offsets, size_t *null_count, size_t *index,
    uint64_t *total) {
    size_t nulls = 0;
    uint64_t sum = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < slices->count; i++) {
        uint32_t length = slices->lengths[i];
        if (gather_is_null(slices, length)) {
            nulls++;
            length = 0;
        } else if (!gather_is_inside(slices, gather_position(slices, i), length)) {
            *index = i;
            return GATHER_OUTSIDE;
        }
        sum += length;
        if (sum > INT32_MAX) {
            *index = i;
            *total = sum;
            return GATHER_LARGE;
        }
        offsets[i + 1] = (int32_t)sum;
    }
    *null_count = nulls;
    *total = sum;
    return GATHER_WHOLE;
}

/* The bitmap, of `(count + 7) / 8` bytes. */
static void gather_validity(const gather_slices *slices, uint8_t *validity) {
    memset(validity, 0, (slices->count + 7) / 8);
    for (size_t i = 0; i < slices->count; i++)
        validity[i / 8] |= (uint8_t)(!gather_is_null(slices, slices->lengths[i]) << (i % 8));
}

/* As memcpy; what is short is copied without a call, in chunks of which the last two overlap. */
static inline void gather_copy_one(uint8_t *to, const uint8_t *from, size_t length) {
    if (length < GATHER_CHUNK_BYTES || length > 8 * GATHER_CHUNK_BYTES) {
        memcpy(to, from, length);
        return;
    }
    size_t last = length - GATHER_CHUNK_BYTES;
    for (size_t at = 0; at < last; at += GATHER_CHUNK_BYTES)
        memcpy(to + at, from + at, GATHER_CHUNK_BYTES);
    memcpy(to + last, from + last, GATHER_CHUNK_BYTES);
}

/* Copies what was measured. Returns whether all of it was inside still. */
static int gather_copy(const gather_slices *slices, const int32_t *offsets, uint8_t *out) {
    for (size_t i = 0; i < slices->count; i++) {
        size_t length = (size_t)(offsets[i + 1] - offsets[i]);
        uint64_t position = gather_position(slices, i);
        if (length == 0) continue;
        if (!gather_is_inside(slices, position, length)) return 0;
        gather_copy_one(out + offsets[i], slices->buffer + position, length);
    }
    return 1;
}

#endif
