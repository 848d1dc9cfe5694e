/* Which instructions the checksums may use: found at run time, so one build serves every CPU. */
#ifndef LAKEBED_CPU_FEATURES_H
#define LAKEBED_CPU_FEATURES_H

#if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__))
#define LAKEBED_X86 1
#include <immintrin.h>
#else
#define LAKEBED_X86 0
#endif

enum {
    FEATURE_SSE42 = 1,       /* the crc32 instruction */
    FEATURE_PCLMUL = 2,      /* carry-less multiply, and the byte shuffle of SSSE3 */
    FEATURE_VPCLMULQDQ = 4,  /* the same on 512 bits */
};

static int features_in_use = 0;

static int features_detected(void) {
    int found = 0;
#if LAKEBED_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) found |= FEATURE_SSE42;
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1") &&
        __builtin_cpu_supports("ssse3"))
        found |= FEATURE_PCLMUL;
    if (found & FEATURE_PCLMUL && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("vpclmulqdq"))
        found |= FEATURE_VPCLMULQDQ;
#endif
    return found;
}

#endif
