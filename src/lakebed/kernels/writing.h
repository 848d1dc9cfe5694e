/* The write loop of `lakebed.base.files.writing`, which says why each rule is there, in C: it runs
 * from the first byte to the sync without the interpreter. */
#ifndef LAKEBED_WRITING_H
#define LAKEBED_WRITING_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "bytes.h"
#include "lakebed_constants.h"

typedef struct {
    uint64_t written;
    int write_errno;
    int sync_errno;
} write_outcome;

static uint8_t writing_zeros[WRITE_BYTES_MAX]; /* never written to: all of it is one page */

/* Puts all bytes at `offset + outcome->written`; returns 0, or -1 with the error in the outcome. */
static int writing_put(
    int fd, uint64_t offset, const uint8_t *data, size_t length, write_outcome *outcome) {
    unsigned again_count = 0;
    while (length) {
        size_t call = length < WRITE_BYTES_MAX ? length : WRITE_BYTES_MAX;
        ssize_t count = pwrite(fd, data, call, (off_t)(offset + outcome->written));
        if (count > 0) {
            data += count;
            length -= (size_t)count;
            outcome->written += (uint64_t)count;
            again_count = 0;
            continue;
        }
        int code = count < 0 ? errno : EIO;
        if (code == EINTR) continue;
        if ((code == EAGAIN || code == EWOULDBLOCK) && again_count++ < AGAIN_COUNT_MAX) {
            sched_yield();
            continue;
        }
        outcome->write_errno = code;
        return -1;
    }
    return 0;
}

/* What gathering the small chunks needs at most: nothing, if there is a single chunk. */
static size_t writing_scratch_bytes(const span *chunks, size_t count) {
    size_t total = 0;
    for (size_t i = 0; i < count && count > 1 && total < WRITE_BYTES_MAX; i++)
        if (chunks[i].length < GATHER_BYTES) total += chunks[i].length;
    return total < WRITE_BYTES_MAX ? total : WRITE_BYTES_MAX;
}

/* `scratch` has room for `writing_scratch_bytes`. */
static int writing_put_chunks(
    int fd, uint64_t offset, const span *chunks, size_t count, uint8_t *scratch,
    write_outcome *outcome) {
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = chunks[i].length;
        int alone = used == 0 && i == count - 1;
        int direct = alone || length >= GATHER_BYTES;
        if (used && (direct || used + length > WRITE_BYTES_MAX)) {
            if (writing_put(fd, offset, scratch, used, outcome)) return -1;
            used = 0;
        }
        if (direct) {
            if (writing_put(fd, offset, chunks[i].data, length, outcome)) return -1;
        } else if (length) {
            memcpy(scratch + used, chunks[i].data, length);
            used += length;
        }
    }
    return writing_put(fd, offset, scratch, used, outcome);
}

static int writing_put_zeros(int fd, uint64_t offset, uint64_t length, write_outcome *outcome) {
    while (outcome->written < length) {
        uint64_t left = length - outcome->written;
        size_t call = left < WRITE_BYTES_MAX ? (size_t)left : WRITE_BYTES_MAX;
        if (writing_put(fd, offset, writing_zeros, call, outcome)) return -1;
    }
    return 0;
}

/* Has the kernel begin to write a range back, if it can be asked to. It is a hint: an error is told by
 * the sync that follows. */
static void writing_start(int fd, uint64_t offset, uint64_t length) {
#ifdef SYNC_FILE_RANGE_WRITE
    int code = errno;
    sync_file_range(fd, (off_t)offset, (off_t)length, SYNC_FILE_RANGE_WRITE);
    errno = code;
#else
    (void)fd, (void)offset, (void)length;
#endif
}

static int writing_sync(int fd) {
    while (fdatasync(fd) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

#endif
