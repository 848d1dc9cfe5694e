/* Messages that stand as slices in a few large buffers, as the columns of Arrow have them: encoded as
 * record batches, their headers as sections, and their keys hashed.
 *
 * A slice is looked at once and becomes a span of our own, inside its buffer, so that positions
 * and lengths which change meanwhile cannot lead outside of it. */
#ifndef LAKEBED_SLICES_H
#define LAKEBED_SLICES_H

#include "gather.h"
#include "record_batch.h"

enum { SECTIONS_WHOLE, SECTIONS_COUNT, SECTIONS_LARGE };

/* The spans of all slices; a null has no data. Returns the first that is not inside the buffer,
 * or the count. */
static size_t slices_spans(const gather_slices *slices, span *spans) {
    static const uint8_t nothing[1];
    for (size_t i = 0; i < slices->count; i++) {
        uint32_t length = slices->lengths[i];
        spans[i].data = NULL;
        spans[i].length = 0;
        if (gather_is_null(slices, length)) continue;
        uint64_t position = gather_position(slices, i);
        if (!gather_is_inside(slices, position, length)) return i;
        spans[i].data = length ? slices->buffer + position : nothing;
        spans[i].length = length;
    }
    return slices->count;
}

/* Where each message's section begins, and where the last one ends: `count + 1` offsets. A section
 * is the number of headers and the headers; that of none is empty. */
static int sections_measure(
    const uint32_t *counts, size_t count, const span *names, const span *values,
    size_t header_count, int32_t *offsets, uint64_t *total) {
    size_t header = 0;
    uint64_t sum = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (counts[i] > header_count - header) return SECTIONS_COUNT;
        if (counts[i]) sum += batch_number_bytes((int64_t)counts[i]);
        for (size_t end = header + counts[i]; header < end; header++) {
            sum += batch_bytes_bytes(&names[header]) + batch_bytes_bytes(&values[header]);
            if (sum > INT32_MAX) break;
        }
        if (sum > INT32_MAX) {
            *total = sum;
            return SECTIONS_LARGE;
        }
        offsets[i + 1] = (int32_t)sum;
    }
    *total = sum;
    return header == header_count ? SECTIONS_WHOLE : SECTIONS_COUNT;
}

/* Writes what was measured: the same counts and spans, which are the caller's own. */
static void sections_write(
    const uint32_t *counts, size_t count, const span *names, const span *values, uint8_t *out) {
    size_t header = 0;
    for (size_t i = 0; i < count; i++) {
        if (counts[i]) out = batch_write_number(out, (int64_t)counts[i]);
        for (size_t end = header + counts[i]; header < end; header++) {
            out = batch_write_bytes(out, &names[header]);
            out = batch_write_bytes(out, &values[header]);
        }
    }
}

/* As Kafka's Java client has it. */
static inline uint32_t murmur2_hash(const uint8_t *data, size_t length) {
    const uint32_t m = MURMUR2_MULTIPLIER;
    uint32_t hash = (uint32_t)MURMUR2_SEED ^ (uint32_t)length;
    for (; length >= 4; data += 4, length -= 4) {
        uint32_t word = load_little32(data) * m;
        word = (word ^ word >> 24) * m;
        hash = hash * m ^ word;
    }
    if (length > 2) hash ^= (uint32_t)data[2] << 16;
    if (length > 1) hash ^= (uint32_t)data[1] << 8;
    if (length > 0) hash = (hash ^ data[0]) * m;
    hash = (hash ^ hash >> 13) * m;
    return hash ^ hash >> 15;
}

/* One hash a span; that of a null is 0. */
static void murmur2_spans(const span *spans, size_t count, uint32_t *hashes) {
    for (size_t i = 0; i < count; i++)
        hashes[i] = spans[i].data ? murmur2_hash(spans[i].data, spans[i].length) : 0;
}

#endif
