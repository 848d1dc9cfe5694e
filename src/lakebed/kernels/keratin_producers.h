/* The producers of Keratin records, as runs: messages of one producer whose sequences and offsets
 * follow one another.
 *
 * A plain record names its producer in its headers block, a batch record in the batch's header.
 * A record that names none, or whose block or batch is none, is passed over. */
#ifndef LAKEBED_KERATIN_PRODUCERS_H
#define LAKEBED_KERATIN_PRODUCERS_H

#include "bytes.h"
#include "keratin.h"
#include "keratin_fields.h"
#include "lakebed_constants.h"

typedef struct {
    uint64_t *producer_ids;
    uint64_t *message_counts;
    uint64_t *base_offsets;
    uint32_t *first_sequences;
    uint16_t *epochs;
    size_t count;
} producer_runs;

typedef struct {
    uint64_t producer_id;
    uint64_t message_count;
    uint32_t sequence;
    uint16_t epoch;
} record_producer;

/* The producer of the block `[at, limit)`; whether it names one. */
static inline int producer_of_block(
    const uint8_t *at, const uint8_t *limit, record_producer *found) {
    if ((uint64_t)(limit - at) < KERATIN_BLOCK_SIZE) return 0;
    uint8_t flags = at[KERATIN_BLOCK_FLAGS_OFFSET];
    if (at[KERATIN_BLOCK_VERSION_OFFSET] != KERATIN_BLOCK_VERSION) return 0;
    if (!(flags & KERATIN_HAS_PRODUCER)) return 0;
    at += KERATIN_BLOCK_SIZE;
    if (flags & KERATIN_HAS_KEY) {
        if ((uint64_t)(limit - at) < KERATIN_KEY_SIZE) return 0;
        uint64_t length = load_big32(at + KERATIN_KEY_LENGTH_OFFSET);
        at += KERATIN_KEY_SIZE;
        if (length > (uint64_t)(limit - at)) return 0;
        at += length;
    }
    if ((uint64_t)(limit - at) < KERATIN_PRODUCER_SIZE) return 0;
    found->producer_id = load_big64(at + KERATIN_PRODUCER_PRODUCER_ID_OFFSET);
    found->epoch = load_big16(at + KERATIN_PRODUCER_EPOCH_OFFSET);
    found->sequence = load_big32(at + KERATIN_PRODUCER_SEQUENCE_OFFSET);
    found->message_count = 1;
    return 1;
}

/* The producer of the record batch `[at, at + length)`; whether it names one. */
static inline int producer_of_batch(const uint8_t *at, uint64_t length, record_producer *found) {
    if (length < RECORD_BATCH_SIZE || at[RECORD_BATCH_MAGIC_OFFSET] != RECORD_BATCH_MAGIC) return 0;
    found->producer_id = load_big64(at + RECORD_BATCH_PRODUCER_ID_OFFSET);
    found->epoch = load_big16(at + RECORD_BATCH_PRODUCER_EPOCH_OFFSET);
    found->sequence = load_big32(at + RECORD_BATCH_BASE_SEQUENCE_OFFSET);
    /* Signed in a batch: negative means that there is none. */
    if (found->producer_id >> 63 || found->epoch >> 15 || found->sequence >> 31) return 0;
    uint32_t last_delta = load_big32(at + RECORD_BATCH_LAST_OFFSET_DELTA_OFFSET);
    found->message_count = last_delta >> 31 ? 1 : (uint64_t)last_delta + 1;
    return 1;
}

/* Whether the messages continue the last run. */
static inline int producer_continues(
    const producer_runs *runs, const record_producer *found, uint64_t offset) {
    if (runs->count == 0) return 0;
    size_t last = runs->count - 1;
    uint64_t count = runs->message_counts[last];
    uint64_t sequence = (runs->first_sequences[last] + count) % PRODUCER_SEQUENCE_COUNT;
    uint64_t base = runs->base_offsets[last];
    return runs->producer_ids[last] == found->producer_id && runs->epochs[last] == found->epoch &&
           sequence == found->sequence && offset >= base && offset - base == count &&
           count + found->message_count <= PRODUCER_RUN_COUNT_MAX;
}

/* Reads all records into `runs`, which has room for one run a record; FIELDS_OUTSIDE if record
 * `*index` is not inside the buffer. */
static int producers_read_records(
    const fields_records *records, const uint64_t *offsets, producer_runs *runs, size_t *index) {
    for (size_t i = 0; i < records->count; i++) {
        uint64_t block_bytes = records->header_lengths[i];
        uint64_t payload_bytes = records->payload_lengths[i];
        uint64_t bytes = keratin_record_bytes(block_bytes, payload_bytes);
        *index = i;
        if (bytes > records->buffer_bytes || records->positions[i] > records->buffer_bytes - bytes)
            return FIELDS_OUTSIDE;
        const uint8_t *block = records->buffer + records->positions[i] + KERATIN_RECORD_SIZE;
        const uint8_t *payload = block + block_bytes;
        record_producer found;
        int is_named = records->flags[i] & KERATIN_BATCH
                           ? producer_of_batch(payload, payload_bytes, &found)
                           : producer_of_block(block, payload, &found);
        if (!is_named) continue;
        if (producer_continues(runs, &found, offsets[i])) {
            runs->message_counts[runs->count - 1] += found.message_count;
            continue;
        }
        runs->producer_ids[runs->count] = found.producer_id;
        runs->message_counts[runs->count] = found.message_count;
        runs->base_offsets[runs->count] = offsets[i];
        runs->first_sequences[runs->count] = found.sequence;
        runs->epochs[runs->count] = found.epoch;
        runs->count++;
    }
    return BLOCK_WHOLE;
}

#endif
