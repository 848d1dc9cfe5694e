/* Unaligned words in either byte order, on any host; compilers make one instruction of each. */
#ifndef LAKEBED_BYTES_H
#define LAKEBED_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that someone else owns and keeps alive. */
typedef struct {
    const uint8_t *data;
    size_t length;
} span;

/* Records are copied in groups, and then their checksums are taken from the copies: bytes that
 * were stored just before are slow to load. */
enum { ENCODE_GROUP_COUNT = 16 };

/* One number for every record (step 0), or one each (step 1). */
typedef struct {
    const uint64_t *values;
    size_t step;
} numbers64;

typedef struct {
    const uint16_t *values;
    size_t step;
} numbers16;

static inline uint64_t load_little64(const uint8_t *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
           (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

static inline uint32_t load_little32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t load_big64(const uint8_t *p) {
    return (uint64_t)p[0] << 56 | (uint64_t)p[1] << 48 | (uint64_t)p[2] << 40 |
           (uint64_t)p[3] << 32 | (uint64_t)p[4] << 24 | (uint64_t)p[5] << 16 |
           (uint64_t)p[6] << 8 | (uint64_t)p[7];
}

static inline uint32_t load_big32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline uint16_t load_big16(const uint8_t *p) {
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void store_little64(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static inline void store_little32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static inline void store_big64(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> (8 * (7 - i)));
}

static inline void store_big32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * (3 - i)));
}

static inline void store_big16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline int all_zero(const uint8_t *p, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (p[i]) return 0;
    return 1;
}

#endif
