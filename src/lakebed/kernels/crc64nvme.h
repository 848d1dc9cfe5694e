/* crc64-nvme, reflected. `state` is the complement of the CRC, so that calls can be chained
 * without turning it over at each. The constants are derived in `polynomials.py`. */
#ifndef LAKEBED_CRC64NVME_H
#define LAKEBED_CRC64NVME_H

#include "bytes.h"
#include "cpu_features.h"
#include "lakebed_constants.h"

static uint64_t crc64_table[8][256];

/* What moves a state over `digit << (8 * k)` bytes: x to the power of their bits. The second has
 * each power lowered by 65, as the carry-less product and its reduction want it. */
enum { CRC64_DIGITS = 8 }; /* of 8 bits each: any length */
static uint64_t crc64_powers[CRC64_DIGITS][256];
static uint64_t crc64_lowered_powers[CRC64_DIGITS][256];

/* The word times x; bit 63 is x^0. */
static inline uint64_t crc64_times_x(uint64_t word) {
    return (word >> 1) ^ (-(word & 1) & CRC64_POLYNOMIAL);
}

static inline uint64_t crc64_over_x(uint64_t word) {
    return word >> 63 ? (word ^ CRC64_POLYNOMIAL) << 1 | 1 : word << 1;
}

/* The product of two words modulo the polynomial. */
static uint64_t crc64_multiply_portable(uint64_t left, uint64_t right) {
    uint64_t product = 0;
    for (; left; left <<= 1, right = crc64_times_x(right)) product ^= -(left >> 63) & right;
    return product;
}

static void crc64_prepare_powers(void) {
    uint64_t one = UINT64_C(1) << 63, step = one >> 8; /* x^0, and x^8: over one byte */
    for (int k = 0; k < CRC64_DIGITS; k++) {
        uint64_t power = one;
        for (int digit = 0; digit < 256; digit++) {
            uint64_t lowered = power;
            for (int i = 0; i < 65; i++) lowered = crc64_over_x(lowered);
            crc64_powers[k][digit] = power;
            crc64_lowered_powers[k][digit] = lowered;
            power = crc64_multiply_portable(power, step);
        }
        step = power; /* its 256th power is the next digit's step */
    }
}

/* To be called once, before any other function of this file. */
static void crc64_prepare(void) {
    for (uint64_t byte = 0; byte < 256; byte++) {
        uint64_t state = byte;
        for (int bit = 0; bit < 8; bit++)
            state = (state >> 1) ^ (state & 1 ? CRC64_POLYNOMIAL : 0);
        crc64_table[0][byte] = state;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint64_t before = crc64_table[k - 1][byte];
            crc64_table[k][byte] = (before >> 8) ^ crc64_table[0][before & 0xFF];
        }
    crc64_prepare_powers();
}

static uint64_t crc64_portable(uint64_t state, const uint8_t *p, size_t length) {
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t word = load_little64(p) ^ state;
        state = 0;
        for (int k = 0; k < 8; k++) state ^= crc64_table[7 - k][word >> (8 * k) & 0xFF];
    }
    for (; length; p++, length--) state = (state >> 8) ^ crc64_table[0][(state ^ *p) & 0xFF];
    return state;
}

/* The upper half XOR the lower half: the 32 bits that a record header has room for. */
static inline uint32_t crc64_fold(uint64_t crc) {
    return (uint32_t)(crc >> 32) ^ (uint32_t)crc;
}

#if LAKEBED_X86

#define TARGET_PCLMUL __attribute__((target("pclmul,sse4.1,ssse3")))
#define TARGET_VPCLMULQDQ __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1,ssse3")))
#define FOLD_CONSTANT(bits) \
    _mm_set_epi64x((long long)CRC64_FOLD_##bits##_SECOND, (long long)CRC64_FOLD_##bits##_FIRST)

enum {
    CRC64_BLOCK_BYTES = 16,
    CRC64_LANES_BYTES = 8 * CRC64_BLOCK_BYTES,
    CRC64_LANES_BYTES_MIN = 2 * CRC64_LANES_BYTES, /* joining the lanes must pay */
    CRC64_WIDE_BYTES = 256,
    CRC64_WIDE_BYTES_MIN = 3 * CRC64_WIDE_BYTES,
};

/* Shuffles that move a block up or down by n bytes: load 16 of these from 16 - n or from n. */
static const uint8_t crc64_shifts[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

TARGET_PCLMUL static inline __m128i crc64_load(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* `block` moved over the bits that `constant` stands for, onto `next`. */
TARGET_PCLMUL static inline __m128i crc64_fold_onto(
    __m128i block, __m128i constant, __m128i next) {
    __m128i first = _mm_clmulepi64_si128(block, constant, 0x00);
    __m128i second = _mm_clmulepi64_si128(block, constant, 0x11);
    return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

/* 128 bits, which stand for the whole message, to the CRC's 64. */
TARGET_PCLMUL static inline uint64_t crc64_reduce(__m128i block) {
    const __m128i barrett = _mm_set_epi64x(
        (long long)CRC64_BARRETT_POLYNOMIAL, (long long)CRC64_BARRETT_QUOTIENT);
    __m128i rest = _mm_xor_si128(
        _mm_clmulepi64_si128(block, FOLD_CONSTANT(128), 0x10), _mm_srli_si128(block, 8));
    __m128i quotient = _mm_clmulepi64_si128(rest, barrett, 0x00);
    __m128i product = _mm_clmulepi64_si128(quotient, barrett, 0x10);
    /* The upper words hold the result; the quotient once more is the polynomial's x^0. */
    __m128i sum = _mm_xor_si128(
        _mm_xor_si128(rest, product), _mm_slli_si128(quotient, 8));
    return (uint64_t)_mm_cvtsi128_si64(_mm_srli_si128(sum, 8));
}

/* A word times a power that was lowered by 65: the product comes out one bit short, and the
 * reduction moves it over 64 bits. */
TARGET_PCLMUL static uint64_t crc64_multiply_lowered(uint64_t word, uint64_t lowered) {
    return crc64_reduce(_mm_clmulepi64_si128(
        _mm_cvtsi64_si128((long long)word), _mm_cvtsi64_si128((long long)lowered), 0x00));
}

/* Everything from `p` on folded into `block`, one block after the other. At least 16 bytes must
 * stand before `p`: a last block that is not full is read together with bytes before it. */
TARGET_PCLMUL static inline uint64_t crc64_finish(
    __m128i block, const uint8_t *p, size_t length) {
    for (; length >= CRC64_BLOCK_BYTES; p += CRC64_BLOCK_BYTES, length -= CRC64_BLOCK_BYTES)
        block = crc64_fold_onto(block, FOLD_CONSTANT(128), crc64_load(p));
    if (length) {
        __m128i up = crc64_load(crc64_shifts + length);
        __m128i down = crc64_load(crc64_shifts + CRC64_BLOCK_BYTES + length);
        /* `block` and the rest are 16 + length bytes: the first `length` fold onto the last 16. */
        __m128i last = _mm_blendv_epi8(
            _mm_shuffle_epi8(block, down), crc64_load(p + length - CRC64_BLOCK_BYTES), down);
        block = crc64_fold_onto(_mm_shuffle_epi8(block, up), FOLD_CONSTANT(128), last);
    }
    return crc64_reduce(block);
}

/* One chain of multiplications: short, so that the CPU overlaps neighbouring records. */
TARGET_PCLMUL static uint64_t crc64_short(uint64_t state, const uint8_t *p, size_t length) {
    __m128i block = _mm_xor_si128(crc64_load(p), _mm_cvtsi64_si128((long long)state));
    return crc64_finish(block, p + CRC64_BLOCK_BYTES, length - CRC64_BLOCK_BYTES);
}

/* Eight chains side by side, which keep the multiplier busy. */
TARGET_PCLMUL static uint64_t crc64_lanes(uint64_t state, const uint8_t *p, size_t length) {
    __m128i lane[8];
    for (int i = 0; i < 8; i++) lane[i] = crc64_load(p + CRC64_BLOCK_BYTES * i);
    lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi64_si128((long long)state));
    p += CRC64_LANES_BYTES, length -= CRC64_LANES_BYTES;
    for (; length >= CRC64_LANES_BYTES; p += CRC64_LANES_BYTES, length -= CRC64_LANES_BYTES)
        for (int i = 0; i < 8; i++)
            lane[i] = crc64_fold_onto(
                lane[i], FOLD_CONSTANT(1024), crc64_load(p + CRC64_BLOCK_BYTES * i));
    for (int i = 0; i < 4; i++)
        lane[i] = crc64_fold_onto(lane[i], FOLD_CONSTANT(512), lane[i + 4]);
    for (int i = 0; i < 2; i++)
        lane[i] = crc64_fold_onto(lane[i], FOLD_CONSTANT(256), lane[i + 2]);
    lane[0] = crc64_fold_onto(lane[0], FOLD_CONSTANT(128), lane[1]);
    return crc64_finish(lane[0], p, length);
}

TARGET_VPCLMULQDQ static inline __m512i crc64_fold_onto_wide(
    __m512i block, __m512i constant, __m512i next) {
    __m512i first = _mm512_clmulepi64_epi128(block, constant, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(block, constant, 0x11);
    return _mm512_ternarylogic_epi64(first, second, next, 0x96); /* XOR of the three */
}

/* Four chains of four blocks each. */
TARGET_VPCLMULQDQ static uint64_t crc64_wide(uint64_t state, const uint8_t *p, size_t length) {
    const __m512i over_2048 = _mm512_broadcast_i32x4(FOLD_CONSTANT(2048));
    const __m512i over_512 = _mm512_broadcast_i32x4(FOLD_CONSTANT(512));
    __m512i lane[4];
    for (int i = 0; i < 4; i++) lane[i] = _mm512_loadu_si512(p + 64 * i);
    lane[0] = _mm512_xor_si512(
        lane[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128((long long)state)));
    p += CRC64_WIDE_BYTES, length -= CRC64_WIDE_BYTES;
    for (; length >= CRC64_WIDE_BYTES; p += CRC64_WIDE_BYTES, length -= CRC64_WIDE_BYTES)
        for (int i = 0; i < 4; i++)
            lane[i] = crc64_fold_onto_wide(lane[i], over_2048, _mm512_loadu_si512(p + 64 * i));
    for (int i = 0; i < 3; i++)
        lane[i + 1] = crc64_fold_onto_wide(lane[i], over_512, lane[i + 1]);
    __m128i block = _mm512_castsi512_si128(lane[3]);
    block = crc64_fold_onto(block, FOLD_CONSTANT(128), _mm512_extracti32x4_epi32(lane[3], 1));
    block = crc64_fold_onto(block, FOLD_CONSTANT(128), _mm512_extracti32x4_epi32(lane[3], 2));
    block = crc64_fold_onto(block, FOLD_CONSTANT(128), _mm512_extracti32x4_epi32(lane[3], 3));
    return crc64_finish(block, p, length);
}

#endif

static inline uint64_t crc64_update(uint64_t state, const uint8_t *p, size_t length) {
#if LAKEBED_X86
    if (features_in_use & FEATURE_PCLMUL && length >= CRC64_BLOCK_BYTES) {
        if (length < CRC64_LANES_BYTES_MIN) return crc64_short(state, p, length);
        if (features_in_use & FEATURE_VPCLMULQDQ && length >= CRC64_WIDE_BYTES_MIN)
            return crc64_wide(state, p, length);
        return crc64_lanes(state, p, length);
    }
#endif
    return crc64_portable(state, p, length);
}

/* The word moved over `length` bytes, as a state moves over that many zero bytes. */
static inline uint64_t crc64_shift(uint64_t word, uint64_t length) {
    for (int k = 0; length; k++, length >>= 8) {
        uint64_t digit = length & 0xFF;
        if (digit == 0) continue;
#if LAKEBED_X86
        if (features_in_use & FEATURE_PCLMUL) {
            word = crc64_multiply_lowered(word, crc64_lowered_powers[k][digit]);
            continue;
        }
#endif
        word = crc64_multiply_portable(word, crc64_powers[k][digit]);
    }
    return word;
}

#endif
