/* Writing records that are encoded on the way: piece by piece in a scratch buffer that stays in the
 * cache, so that a large batch is not written to memory and read back from there. */
#ifndef LAKEBED_SOURCES_H
#define LAKEBED_SOURCES_H

#include "aof.h"
#include "keratin.h"
#include "writing.h"

enum {
    SCRATCH_BYTES = 512 << 10,
    SCRATCH_BODY_MAX = 64 << 10, /* records with more are encoded before: no piece is too small */
    SCRATCH_COUNT = SCRATCH_BYTES / (AOF_RECORD_SIZE + AOF_ALIGNMENT) + 1, /* the smallest ones */
};

typedef enum { SOURCE_PLAIN, SOURCE_AOF, SOURCE_KERATIN } source_kind;

/* Plain bytes, or `count` records to encode, each kind with what it needs. */
typedef struct {
    source_kind kind;
    span plain;
    const span *payloads;
    size_t count;
    numbers64 timestamps;
    numbers64 ext_ids; /* of AOF2 records, as is the next: their own CRC state, moved along */
    uint64_t state;
    const span *headers; /* of Keratin records, or NULL; as are the next two */
    numbers64 offsets;
    numbers16 flags;
} source;

typedef struct {
    uint8_t bytes[SCRATCH_BYTES];
    uint64_t positions[SCRATCH_COUNT];
    size_t used;
    int is_synced; /* behind the last byte */
} source_scratch;

static int source_put_scratch(
    int fd, uint64_t offset, source_scratch *scratch, write_outcome *outcome) {
    size_t used = scratch->used;
    scratch->used = 0;
    return writing_put(fd, offset, scratch->bytes, used, outcome);
}

/* More follows: what is written so far goes on to the device meanwhile, if it is waited for. */
static int source_put_early(
    int fd, uint64_t offset, source_scratch *scratch, write_outcome *outcome) {
    uint64_t before = outcome->written;
    if (source_put_scratch(fd, offset, scratch, outcome)) return -1;
    if (scratch->is_synced) writing_start(fd, offset + before, outcome->written - before);
    return 0;
}

static int source_put_plain(
    int fd, uint64_t offset, span plain, source_scratch *scratch, write_outcome *outcome) {
    if (plain.length > SCRATCH_BYTES - scratch->used &&
        source_put_scratch(fd, offset, scratch, outcome))
        return -1;
    if (plain.length > SCRATCH_BYTES)
        return writing_put(fd, offset, plain.data, plain.length, outcome);
    if (plain.length) memcpy(scratch->bytes + scratch->used, plain.data, plain.length);
    scratch->used += plain.length;
    return 0;
}

static numbers64 numbers64_from(numbers64 numbers, size_t first) {
    numbers.values += first * numbers.step;
    return numbers;
}

/* Encodes what fits behind the scratch's bytes, from the record `first` on; how many that are. */
static size_t source_encode_aof(source *source, size_t first, source_scratch *scratch) {
    uint64_t bytes;
    size_t room = SCRATCH_BYTES - scratch->used;
    const span *payloads = source->payloads + first;
    size_t count = aof_fitting(payloads, source->count - first, room, &bytes);
    source->state = aof_encode_records(
        scratch->bytes + scratch->used, payloads, count, numbers64_from(source->timestamps, first),
        numbers64_from(source->ext_ids, first), scratch->positions, source->state);
    scratch->used += (size_t)bytes;
    return count;
}

static size_t source_encode_keratin(source *source, size_t first, source_scratch *scratch) {
    uint64_t bytes;
    size_t room = SCRATCH_BYTES - scratch->used;
    const span *payloads = source->payloads + first;
    const span *headers = source->headers ? source->headers + first : NULL;
    size_t count = keratin_fitting(payloads, headers, source->count - first, room, &bytes);
    numbers64 offsets = numbers64_from(source->offsets, first);
    uint64_t counted = offsets.values[0] + first; /* one number is the first record's */
    if (offsets.step == 0) offsets.values = &counted;
    numbers16 flags = source->flags;
    flags.values += first * flags.step;
    keratin_encode_records(
        scratch->bytes + scratch->used, payloads, headers, count, offsets,
        numbers64_from(source->timestamps, first), flags, scratch->positions);
    scratch->used += (size_t)bytes;
    return count;
}

static int source_put_records(
    int fd, uint64_t offset, source *source, source_scratch *scratch, write_outcome *outcome) {
    for (size_t first = 0; first < source->count;) {
        size_t count = source->kind == SOURCE_AOF ? source_encode_aof(source, first, scratch)
                                                  : source_encode_keratin(source, first, scratch);
        if (count == 0 && source_put_early(fd, offset, scratch, outcome)) return -1;
        first += count;
    }
    return 0;
}

/* Everything one behind the other at `offset`. */
static int source_put_all(
    int fd, uint64_t offset, source *sources, size_t count, source_scratch *scratch,
    write_outcome *outcome) {
    scratch->used = 0;
    for (size_t i = 0; i < count; i++) {
        int failed = sources[i].kind == SOURCE_PLAIN
            ? source_put_plain(fd, offset, sources[i].plain, scratch, outcome)
            : source_put_records(fd, offset, &sources[i], scratch, outcome);
        if (failed) return -1;
    }
    return source_put_scratch(fd, offset, scratch, outcome);
}

#endif
