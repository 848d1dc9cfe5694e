# Checksums of one buffer, and of two whose own are known.
#
# Part of `_compiled.pyx`, which includes this file; what is held and checked there is so here.

def crc32c(data, crc=0):
    """Returns the crc32c of the bytes with CRC `crc` followed by `data`."""
    cdef uint32_t state = ~<uint32_t>integer(crc, "crc", U32_MAX)
    cdef const uint8_t *start
    cdef size_t length
    cdef Held held
    if PyBytes_CheckExact(data):
        start = <const uint8_t *>PyBytes_AS_STRING(data)
        length = <size_t>PyBytes_GET_SIZE(data)
    else:
        held = Held(data, "data")
        start = <const uint8_t *>held.view.buf
        length = <size_t>held.view.len
    if length < UNLOCK_BYTES:
        return ~crc32c_update(state, start, length)
    with nogil:
        state = crc32c_update(state, start, length)
    return ~state


def crc64nvme(data, crc=0):
    """Returns the crc64-nvme of the bytes with CRC `crc` followed by `data`."""
    cdef uint64_t state = ~integer(crc, "crc", U64_MAX)
    cdef const uint8_t *start
    cdef size_t length
    cdef Held held
    if PyBytes_CheckExact(data):
        start = <const uint8_t *>PyBytes_AS_STRING(data)
        length = <size_t>PyBytes_GET_SIZE(data)
    else:
        held = Held(data, "data")
        start = <const uint8_t *>held.view.buf
        length = <size_t>held.view.len
    if length < UNLOCK_BYTES:
        return ~crc64_update(state, start, length)
    with nogil:
        state = crc64_update(state, start, length)
    return ~state


def fold64(uint64_t crc):
    """Folds a 64-bit CRC into 32 bits: the upper half XOR the lower half."""
    return crc64_fold(crc)


def crc32_combine(first, second, length):
    """Returns the CRC-32 (`zlib.crc32`) of two adjacent byte strings from their CRCs. `length` is
    the length of the second one.
    """
    cdef uint32_t before = <uint32_t>integer(first, "first", U32_MAX)
    cdef uint32_t after = <uint32_t>integer(second, "second", U32_MAX)
    return crc32_shift(before, integer(length, "length", U64_MAX)) ^ after


def crc32c_combine(first, second, length):
    """Returns the crc32c of two adjacent byte strings from their CRCs. `length` is the length of
    the second one.
    """
    cdef uint32_t before = <uint32_t>integer(first, "first", U32_MAX)
    cdef uint32_t after = <uint32_t>integer(second, "second", U32_MAX)
    return crc32c_shift(before, integer(length, "length", U64_MAX)) ^ after


def crc64_combine(first, second, length):
    """Returns the crc64-nvme of two adjacent byte strings from their CRCs. `length` is the length
    of the second one.
    """
    cdef uint64_t before = integer(first, "first", U64_MAX)
    cdef uint64_t after = integer(second, "second", U64_MAX)
    return crc64_shift(before, integer(length, "length", U64_MAX)) ^ after
