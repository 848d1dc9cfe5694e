/* CRCs of 32 bits moved over following bytes, to join those of two pieces of data: CRC-32 and
 * crc32c, both reflected; bit 31 is x^0. */
#ifndef LAKEBED_CRC32_SHIFT_H
#define LAKEBED_CRC32_SHIFT_H

#include "bytes.h"
#include "lakebed_constants.h"

enum { CRC32_POWERS = 64 }; /* the k-th moves over 2^k bytes: any length */
static uint32_t crc32_powers[CRC32_POWERS];
static uint32_t crc32c_powers[CRC32_POWERS];

/* The product of two words modulo the polynomial. */
static uint32_t crc32_multiply(uint32_t left, uint32_t right, uint32_t polynomial) {
    uint32_t product = 0;
    for (; left; left <<= 1, right = (right >> 1) ^ (-(right & 1) & polynomial))
        product ^= -(left >> 31) & right;
    return product;
}

static void crc32_prepare_powers_of(uint32_t *powers, uint32_t polynomial) {
    uint32_t power = UINT32_C(1) << 23; /* x^8: over one byte */
    for (int k = 0; k < CRC32_POWERS; k++) {
        powers[k] = power;
        power = crc32_multiply(power, power, polynomial);
    }
}

/* To be called once, before any other function of this file. */
static void crc32_prepare_powers(void) {
    crc32_prepare_powers_of(crc32_powers, (uint32_t)CRC32_POLYNOMIAL);
    crc32_prepare_powers_of(crc32c_powers, (uint32_t)CRC32C_POLYNOMIAL);
}

static uint32_t crc32_shift_by(
    uint32_t word, uint64_t length, const uint32_t *powers, uint32_t polynomial) {
    for (int k = 0; length; k++, length >>= 1)
        if (length & 1) word = crc32_multiply(word, powers[k], polynomial);
    return word;
}

static uint32_t crc32_shift(uint32_t word, uint64_t length) {
    return crc32_shift_by(word, length, crc32_powers, (uint32_t)CRC32_POLYNOMIAL);
}

static uint32_t crc32c_shift(uint32_t word, uint64_t length) {
    return crc32_shift_by(word, length, crc32c_powers, (uint32_t)CRC32C_POLYNOMIAL);
}

#endif
