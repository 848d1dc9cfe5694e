# cython: language_level=3, boundscheck=False, wraparound=False, binding=True
"""The compiled kernels: the Python interface of the loops in the C headers.

The contracts are in `reference`. Arguments are checked and kept alive here before a loop starts:
sequences are copied to tuples, buffers are exported for the whole call, and numbers are in range.
The loops themselves use no Python object. They release the interpreter lock from `UNLOCK_BYTES` of
work on: smaller loops take microseconds, and getting the lock back can take milliseconds.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE
from cpython.buffer cimport PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsUnsignedLongLong, PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from lakebed.base.files.writing import FILE_OFFSET_MAX, WriteOutcome, check_range
from lakebed.kernels import arguments
from lakebed.kernels.results import AofEncoded, AofScan, KeratinEncoded, KeratinScan, Stop


cdef enum:
    UNLOCK_BYTES = 64 << 10
    FIRST_COLUMN_COUNT = 512
    FD_MAX = 0x7FFFFFFF

cdef uint64_t U32_MAX = arguments.U32_MAX
cdef uint64_t U64_MAX = arguments.U64_MAX
cdef uint64_t OFFSET_MAX = FILE_OFFSET_MAX

SOURCE_HASH = LAKEBED_SOURCE_HASH.decode("ascii")

cdef dict FEATURES = {
    "sse4.2": FEATURE_SSE42, "pclmul": FEATURE_PCLMUL, "vpclmulqdq": FEATURE_VPCLMULQDQ,
}
cdef tuple STOPS = tuple(Stop)

features_in_use = features_detected()
crc32c_prepare()
crc32_prepare_powers()
crc64_prepare()


def features():
    """Returns the names of the CPU instruction sets that are used."""
    return tuple(name for name, bit in FEATURES.items() if features_in_use & bit)


def features_available():
    """Returns the names of the instruction sets that this CPU has and the loops can use."""
    return tuple(name for name, bit in FEATURES.items() if features_detected() & bit)


def set_features(names):
    """Restricts the loops to these instruction sets, for tests of the other code paths. Raises
    `ValueError` if the CPU lacks one.
    """
    global features_in_use
    cdef int wanted = 0
    for name in names:
        if not FEATURES.get(name, 0) & features_detected():
            raise ValueError(f"{name!r} is not available here")
        wanted |= FEATURES[name]
    features_in_use = wanted


cdef uint64_t integer(object value, str what, uint64_t maximum) except? 0xDEADBEEF:
    """Like `arguments.integer`, but without a Python call in the common case."""
    cdef uint64_t number
    if PyLong_CheckExact(value):
        try:
            number = PyLong_AsUnsignedLongLong(value)
            if number <= maximum:
                return number
        except OverflowError:
            pass
    return arguments.integer(value, what, maximum=maximum)


cdef tuple items(object values, str what):
    """Like `arguments.items`, but without a Python call in the common cases."""
    if type(values) is tuple:
        return values
    if type(values) is list:
        return tuple(<list>values)
    return arguments.items(values, what)


cdef size_t expected_count(size_t found, uint64_t done, uint64_t left, size_t limit) noexcept:
    """Returns the capacity for the records found and those still expected, if they are of similar
    size, and a little more.

    So most columns grow only once. The result is at least twice the number found (but at most
    `limit`), so that a wrong guess costs no more than doubling would.
    """
    cdef uint64_t guess = found + left // (done // found + 1) * 9 // 8
    return <size_t>min(<uint64_t>limit, max(guess, <uint64_t>found * 2))


cdef class Held:
    """A contiguous buffer, exported for as long as this object lives."""

    cdef Py_buffer view
    cdef bint is_held

    def __cinit__(self, value, str what):
        self.is_held = False
        try:
            PyObject_GetBuffer(value, &self.view, PyBUF_SIMPLE)
        except (TypeError, BufferError, ValueError):
            arguments.refuse_bytes(value, what)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


cdef class Spans:
    """The bytes of many objects, held for as long as this object lives.

    `items` is a tuple that no other code can change. It keeps items of the exact type `bytes`
    alive; buffers of other items are exported. `None` counts as no bytes if `allow_none` is set.
    """

    cdef tuple items
    cdef span *spans
    cdef Py_buffer *views
    cdef Py_ssize_t view_count
    cdef Py_ssize_t count
    cdef uint64_t total_bytes
    cdef size_t longest
    cdef size_t shortest

    def __cinit__(self, tuple items, str what, bint allow_none=False):
        cdef Py_ssize_t index, foreign_count = 0
        cdef span *spans
        self.items = items
        self.count = len(items)
        self.shortest = <size_t>PY_SSIZE_T_MAX
        self.spans = spans = <span *>PyMem_RawMalloc(max(self.count, 1) * sizeof(span))
        if spans == NULL:
            raise MemoryError
        for index in range(self.count):
            item = items[index]
            if PyBytes_CheckExact(item):
                spans[index].data = <const uint8_t *>PyBytes_AS_STRING(item)
                spans[index].length = <size_t>PyBytes_GET_SIZE(item)
            else:
                foreign_count += 1
        if foreign_count:
            self.views = <Py_buffer *>PyMem_RawMalloc(foreign_count * sizeof(Py_buffer))
            if self.views == NULL:
                raise MemoryError
            for index in range(self.count):
                if not PyBytes_CheckExact(items[index]):
                    self.hold(index, items[index], what, allow_none)
        for index in range(self.count):
            self.total_bytes += spans[index].length
            self.longest = max(self.longest, spans[index].length)
            self.shortest = min(self.shortest, spans[index].length)

    cdef int hold(self, Py_ssize_t index, object item, str what, bint allow_none) except -1:
        """Exports the buffer of an item that is not exactly `bytes`."""
        cdef Py_buffer *view
        if allow_none and item is None:
            self.spans[index].data = NULL
            self.spans[index].length = 0
            return 0
        view = &self.views[self.view_count]
        try:
            PyObject_GetBuffer(item, view, PyBUF_SIMPLE)
        except (TypeError, BufferError, ValueError):
            arguments.refuse_bytes(item, f"{what} {index}")
        self.view_count += 1
        self.spans[index].data = <const uint8_t *>view.buf
        self.spans[index].length = <size_t>view.len
        return 0

    cdef int check_lengths(self, str what, bint allow_empty) except -1:
        cdef Py_ssize_t index
        if <uint64_t>self.longest > U32_MAX:
            for index in range(self.count):
                if <uint64_t>self.spans[index].length > U32_MAX:
                    arguments.refuse_large(f"{what} {index}", self.spans[index].length)
        if self.shortest == 0 and not allow_empty:
            for index in range(self.count):
                if self.spans[index].length == 0:
                    arguments.refuse_empty(f"{what} {index}")
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t index
        for index in range(self.view_count):
            PyBuffer_Release(&self.views[index])
        PyMem_RawFree(self.views)
        PyMem_RawFree(self.spans)


cdef class Numbers:
    """One number for all records, or one number per record, in the form that the loops use."""

    cdef Held held
    cdef uint64_t one64
    cdef uint16_t one16
    cdef const void *values
    cdef size_t step

    def __cinit__(self, value, str what, str code, Py_ssize_t count):
        if PyLong_CheckExact(value) and code != "q":
            checked = integer(value, what, U64_MAX if code == "Q" else 0xFFFF)
        else:
            checked = arguments.numbers(value, what, code=code, count=count)
        if isinstance(checked, int):
            self.step = 0
            self.one64 = <uint64_t><int64_t>checked if code == "q" else checked
            self.one16 = <uint16_t>self.one64
            self.values = <void *>&self.one16 if code == "H" else <void *>&self.one64
        else:
            self.step = 1
            self.held = Held(checked, what)
            self.values = self.held.view.buf

    cdef numbers64 wide(self) noexcept:
        return numbers64(<const uint64_t *>self.values, self.step)

    cdef numbers16 narrow(self) noexcept:
        return numbers16(<const uint16_t *>self.values, self.step)


cdef class Rows:
    """Columns of equal length in one block of memory, which a scan enlarges as it finds records.

    `codes` has a letter per column (Q, q, I, i, H), the widest first, so that every column is
    aligned. It is one block because the allocator returns several large ones to the system each
    time, and new pages cost more than the scan itself.
    """

    cdef uint8_t *memory
    cdef size_t room
    cdef bytes codes

    def __cinit__(self, bytes codes, size_t room):
        self.codes = codes
        self.move(room, 0)

    cdef int move(self, size_t room, size_t count) except -1:
        """Replaces the block with one for `room` rows, and copies the first `count` rows."""
        cdef size_t row_bytes = self.bytes_before(len(self.codes))
        cdef uint8_t *memory
        cdef Py_ssize_t index
        if room > <size_t>PY_SSIZE_T_MAX // row_bytes:
            raise MemoryError
        memory = <uint8_t *>PyMem_RawMalloc(max(room, <size_t>1) * row_bytes)
        if memory == NULL:
            raise MemoryError
        if count:
            for index in range(len(self.codes)):
                memcpy(
                    memory + room * self.bytes_before(index), self.column(index),
                    count * self.width(index))
        PyMem_RawFree(self.memory)
        self.memory = memory
        self.room = room
        return 0

    cdef size_t width(self, Py_ssize_t index) noexcept:
        cdef char code = PyBytes_AS_STRING(self.codes)[index]
        if code == c"Q" or code == c"q":
            return 8
        return 4 if code == c"I" or code == c"i" else 2

    cdef size_t bytes_before(self, Py_ssize_t index) noexcept:
        """Returns how many bytes of one row are in the columns before column `index`."""
        cdef size_t total = 0
        cdef Py_ssize_t before
        for before in range(index):
            total += self.width(before)
        return total

    cdef void *column(self, Py_ssize_t index) noexcept:
        return self.memory + self.room * self.bytes_before(index)

    cdef tuple views(self, size_t count):
        """Returns a view of the first `count` items of each column. The block must not move
        after that.
        """
        if count < self.room // 2:
            self.move(count, count)
        return tuple([self.view(index, count) for index in range(len(self.codes))])

    cdef object view(self, Py_ssize_t index, size_t count):
        return memoryview(Column(self, index, <Py_ssize_t>count))

    def __dealloc__(self):
        PyMem_RawFree(self.memory)


cdef class Column:
    """Exports one column as a flat, read-only buffer, and keeps the block alive."""

    cdef Rows rows
    cdef void *items
    cdef bytes code
    cdef Py_ssize_t width
    cdef Py_ssize_t count

    def __cinit__(self, Rows rows, Py_ssize_t index, Py_ssize_t count):
        self.rows = rows
        self.items = rows.column(index)
        self.code = rows.codes[index:index + 1]
        self.width = <Py_ssize_t>rows.width(index)
        self.count = count

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.items, self.count * self.width, 1, flags)
        view.itemsize = self.width
        view.format = <char *>self.code if flags & PyBUF_FORMAT else NULL
        if flags & PyBUF_ND:
            view.shape = &self.count
        # Strides, if asked for, point at the item size already.


def aof_encode(payloads, *, timestamps, ext_ids, capacity, crc64=0):
    """Encodes the longest prefix of `payloads` whose AOF2 records fit in `capacity` bytes."""
    cdef Spans spans = Spans(items(payloads, "payloads"), "payload")
    spans.check_lengths("payload", False)
    cdef Numbers timestamp_numbers = Numbers(timestamps, "timestamps", "Q", spans.count)
    cdef Numbers ext_id_numbers = Numbers(ext_ids, "ext_ids", "Q", spans.count)
    cdef uint64_t room = arguments.limit(capacity, "capacity")
    cdef uint64_t state = ~integer(crc64, "crc64", U64_MAX)
    cdef uint64_t size = 0
    cdef size_t count = aof_fitting(spans.spans, <size_t>spans.count, room, &size)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
    cdef Rows rows = Rows(b"Q", count)
    cdef uint64_t *offset_items = <uint64_t *>rows.column(0)
    cdef const span *inputs = spans.spans
    cdef numbers64 stamps = timestamp_numbers.wide()
    cdef numbers64 ids = ext_id_numbers.wide()
    if size < UNLOCK_BYTES:
        state = aof_encode_records(out, inputs, count, stamps, ids, offset_items, state)
    else:
        with nogil:
            state = aof_encode_records(out, inputs, count, stamps, ids, offset_items, state)
    return AofEncoded(data, rows.view(0, count), ~state)


def aof_scan(buffer, start, end, *, count_max):
    """Scans the records from `start` up to `end`, and verifies the checksum of every payload."""
    cdef Held held = Held(buffer, "buffer")
    cdef const uint8_t *data = <const uint8_t *>held.view.buf
    first, last = arguments.bounds(held.view.len, start, end)
    cdef uint64_t first_byte = first
    cdef uint64_t position = first
    cdef uint64_t stop_at = last
    cdef size_t limit = arguments.limit(count_max, "count_max")
    cdef size_t room = min(limit, <size_t>FIRST_COLUMN_COUNT)
    cdef Rows rows = Rows(b"QQQI", room)
    cdef aof_columns columns
    cdef int stop
    columns.count = 0
    while True:
        columns.offsets = <uint64_t *>rows.column(0)
        columns.timestamps = <uint64_t *>rows.column(1)
        columns.ext_ids = <uint64_t *>rows.column(2)
        columns.lengths = <uint32_t *>rows.column(3)
        if stop_at - position < UNLOCK_BYTES:
            stop = aof_scan_records(data, &position, stop_at, room, &columns)
        else:
            with nogil:
                stop = aof_scan_records(data, &position, stop_at, room, &columns)
        if stop != STOP_COUNT or room == limit:
            break
        room = expected_count(columns.count, position - first_byte, stop_at - position, limit)
        rows.move(room, columns.count)
    offsets, stamps, ids, lengths = rows.views(columns.count)
    return AofScan(offsets, lengths, stamps, ids, position, STOPS[stop])


def aof_find(buffer, start, end):
    """Returns the offset of the first complete record with a valid checksum in
    `buffer[start:end]`, or -1.
    """
    cdef Held held = Held(buffer, "buffer")
    first, last = arguments.bounds(held.view.len, start, end)
    cdef uint64_t first_byte = first
    cdef uint64_t length = last - first
    cdef const uint8_t *data = <const uint8_t *>held.view.buf + first_byte
    cdef int64_t found
    cdef uint64_t *states = <uint64_t *>PyMem_RawMalloc(marks_count(length) * sizeof(uint64_t))
    if states == NULL:
        raise MemoryError
    if length < UNLOCK_BYTES:
        found = aof_find_record(data, length, states)
    else:
        with nogil:
            found = aof_find_record(data, length, states)
    PyMem_RawFree(states)
    return found if found < 0 else <int64_t>first_byte + found


def keratin_scan(buffer, start, end, *, count_max):
    """Scans the records from `start` up to `end`, and verifies the checksum of every record."""
    cdef Held held = Held(buffer, "buffer")
    cdef const uint8_t *data = <const uint8_t *>held.view.buf
    first, last = arguments.bounds(held.view.len, start, end)
    cdef uint64_t first_byte = first
    cdef uint64_t position = first
    cdef uint64_t stop_at = last
    cdef size_t limit = arguments.limit(count_max, "count_max")
    cdef size_t room = min(limit, <size_t>FIRST_COLUMN_COUNT)
    cdef Rows rows = Rows(b"QQQIIH", room)
    cdef keratin_columns columns
    cdef int stop
    columns.count = 0
    while True:
        columns.positions = <uint64_t *>rows.column(0)
        columns.offsets = <uint64_t *>rows.column(1)
        columns.timestamps_ms = <uint64_t *>rows.column(2)
        columns.header_lengths = <uint32_t *>rows.column(3)
        columns.payload_lengths = <uint32_t *>rows.column(4)
        columns.flags = <uint16_t *>rows.column(5)
        if stop_at - position < UNLOCK_BYTES:
            stop = keratin_scan_records(data, &position, stop_at, room, &columns)
        else:
            with nogil:
                stop = keratin_scan_records(data, &position, stop_at, room, &columns)
        if stop != STOP_COUNT or room == limit:
            break
        room = expected_count(columns.count, position - first_byte, stop_at - position, limit)
        rows.move(room, columns.count)
    positions, offsets, stamps, header_lengths, payload_lengths, flags = rows.views(columns.count)
    return KeratinScan(
        positions, offsets, stamps, flags, header_lengths, payload_lengths, position, STOPS[stop])


def bytes_lengths(values):
    """Returns the sum and the maximum of the lengths of the values, or None if one of them is not
    a `bytes` object.
    """
    cdef tuple taken = items(values, "values")
    cdef uint64_t total = 0, longest = 0, length
    for item in taken:
        if not PyBytes_CheckExact(item):
            return None
        length = <uint64_t>PyBytes_GET_SIZE(item)
        total += length
        longest = max(longest, length)
    return total, longest


include "checksums.pxi"
include "record_batch.pxi"
include "columns.pxi"
include "producers.pxi"
include "slices.pxi"
include "sources.pxi"
include "writing.pxi"
