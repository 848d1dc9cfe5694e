/* crc32c (Castagnoli), reflected. `state` is the complement of the CRC, so that calls can be
 * chained without turning it over at each. */
#ifndef LAKEBED_CRC32C_H
#define LAKEBED_CRC32C_H

#include "bytes.h"
#include "cpu_features.h"
#include "lakebed_constants.h"

static uint32_t crc32c_table[8][256];

/* To be called once, before any other function of this file. */
static void crc32c_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = (state >> 1) ^ (state & 1 ? (uint32_t)CRC32C_POLYNOMIAL : 0);
        crc32c_table[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc32c_table[k - 1][byte];
            crc32c_table[k][byte] = (before >> 8) ^ crc32c_table[0][before & 0xFF];
        }
}

static uint32_t crc32c_portable(uint32_t state, const uint8_t *p, size_t length) {
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t word = load_little64(p) ^ state;
        state = 0;
        for (int k = 0; k < 8; k++) state ^= crc32c_table[7 - k][word >> (8 * k) & 0xFF];
    }
    for (; length; p++, length--) state = (state >> 8) ^ crc32c_table[0][(state ^ *p) & 0xFF];
    return state;
}

#if LAKEBED_X86

__attribute__((target("sse4.2"))) static inline uint32_t crc32c_serial(
    uint32_t state, const uint8_t *p, size_t length) {
    uint64_t wide = state;
    for (; length >= 8; p += 8, length -= 8) wide = _mm_crc32_u64(wide, load_little64(p));
    state = (uint32_t)wide;
    if (length & 4) {
        state = _mm_crc32_u32(state, load_little32(p));
        p += 4;
    }
    for (length &= 3; length; p++, length--) state = _mm_crc32_u8(state, *p);
    return state;
}

/* The CRC instruction takes three cycles but can start one each cycle: three lanes keep it busy.
 * `over_1` and `over_2` move a lane's CRC over one and two lanes of bytes. */
__attribute__((target("sse4.2,pclmul"))) static inline uint32_t crc32c_three_lanes(
    uint32_t state, const uint8_t *p, size_t lane_bytes, uint32_t over_1, uint32_t over_2) {
    uint64_t first = state, second = 0, third = 0;
    for (size_t i = 0; i < lane_bytes; i += 8) {
        first = _mm_crc32_u64(first, load_little64(p + i));
        second = _mm_crc32_u64(second, load_little64(p + lane_bytes + i));
        third = _mm_crc32_u64(third, load_little64(p + 2 * lane_bytes + i));
    }
    __m128i moved_first =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)first), _mm_cvtsi32_si128((int)over_2), 0);
    __m128i moved_second =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)second), _mm_cvtsi32_si128((int)over_1), 0);
    uint64_t joined = (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(moved_first, moved_second));
    return (uint32_t)third ^ (uint32_t)_mm_crc32_u64(0, joined);
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32c_interleaved(
    uint32_t state, const uint8_t *p, size_t length) {
    for (; length >= 3 * CRC32C_LONG_BYTES;
         p += 3 * CRC32C_LONG_BYTES, length -= 3 * CRC32C_LONG_BYTES)
        state = crc32c_three_lanes(
            state, p, CRC32C_LONG_BYTES, CRC32C_LONG_OVER_1, CRC32C_LONG_OVER_2);
    for (; length >= 3 * CRC32C_SHORT_BYTES;
         p += 3 * CRC32C_SHORT_BYTES, length -= 3 * CRC32C_SHORT_BYTES)
        state = crc32c_three_lanes(
            state, p, CRC32C_SHORT_BYTES, CRC32C_SHORT_OVER_1, CRC32C_SHORT_OVER_2);
    return crc32c_serial(state, p, length);
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_instruction(
    uint32_t state, const uint8_t *p, size_t length) {
    return crc32c_serial(state, p, length);
}

#endif

static inline uint32_t crc32c_update(uint32_t state, const uint8_t *p, size_t length) {
#if LAKEBED_X86
    if (features_in_use & FEATURE_SSE42) {
        if (features_in_use & FEATURE_PCLMUL && length >= 3 * CRC32C_SHORT_BYTES)
            return crc32c_interleaved(state, p, length);
        return crc32c_instruction(state, p, length);
    }
#endif
    return crc32c_portable(state, p, length);
}

#endif
