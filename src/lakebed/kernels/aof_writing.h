/* Writing AOF2 records that are encoded on the way: piece by piece in a scratch buffer that stays in
 * the cache, so that a large batch is not written to memory and read back from there. */
#ifndef LAKEBED_AOF_WRITING_H
#define LAKEBED_AOF_WRITING_H

#include "aof.h"
#include "writing.h"

enum {
    AOF_SCRATCH_BYTES = 256 << 10,
    AOF_SCRATCH_PAYLOAD_MAX = 64 << 10, /* longer ones are encoded before: no piece is too small */
    AOF_SCRATCH_COUNT = AOF_SCRATCH_BYTES / (AOF_RECORD_SIZE + AOF_ALIGNMENT) + 1,
};

/* Plain bytes (`count` 0), or records to encode, whose own CRC state is moved along. */
typedef struct {
    span plain;
    const span *payloads;
    size_t count;
    numbers64 timestamps;
    numbers64 ext_ids;
    uint64_t state;
} aof_source;

typedef struct {
    uint8_t bytes[AOF_SCRATCH_BYTES];
    uint64_t offsets[AOF_SCRATCH_COUNT];
    size_t used;
} aof_scratch;

static int aof_put_scratch(int fd, uint64_t offset, aof_scratch *scratch, write_outcome *outcome) {
    size_t used = scratch->used;
    scratch->used = 0;
    return writing_put(fd, offset, scratch->bytes, used, outcome);
}

static int aof_put_plain(
    int fd, uint64_t offset, span plain, aof_scratch *scratch, write_outcome *outcome) {
    if (plain.length > AOF_SCRATCH_BYTES - scratch->used &&
        aof_put_scratch(fd, offset, scratch, outcome))
        return -1;
    if (plain.length > AOF_SCRATCH_BYTES)
        return writing_put(fd, offset, plain.data, plain.length, outcome);
    if (plain.length) memcpy(scratch->bytes + scratch->used, plain.data, plain.length);
    scratch->used += plain.length;
    return 0;
}

static int aof_put_records(
    int fd, uint64_t offset, aof_source *source, aof_scratch *scratch, write_outcome *outcome) {
    for (size_t first = 0; first < source->count;) {
        uint64_t bytes;
        size_t room = AOF_SCRATCH_BYTES - scratch->used;
        size_t count = aof_fitting(source->payloads + first, source->count - first, room, &bytes);
        if (count == 0) {
            if (aof_put_scratch(fd, offset, scratch, outcome)) return -1;
            continue;
        }
        numbers64 timestamps = source->timestamps, ext_ids = source->ext_ids;
        timestamps.values += first * timestamps.step;
        ext_ids.values += first * ext_ids.step;
        source->state = aof_encode_records(
            scratch->bytes + scratch->used, source->payloads + first, count, timestamps, ext_ids,
            scratch->offsets, source->state);
        scratch->used += (size_t)bytes;
        first += count;
    }
    return 0;
}

/* Everything one behind the other at `offset`. */
static int aof_put_sources(
    int fd, uint64_t offset, aof_source *sources, size_t count, aof_scratch *scratch,
    write_outcome *outcome) {
    scratch->used = 0;
    for (size_t i = 0; i < count; i++) {
        int failed = sources[i].count
            ? aof_put_records(fd, offset, &sources[i], scratch, outcome)
            : aof_put_plain(fd, offset, sources[i].plain, scratch, outcome);
        if (failed) return -1;
    }
    return aof_put_scratch(fd, offset, scratch, outcome);
}

#endif
