"""Argument checks that the compiled functions and the Python reference share.

A wrong argument raises `InputError` before anything is encoded, scanned or written; numbers never
wrap around. A sequence is copied before it is checked, because reading its items may run code that
changes the sequence. `what` is the name of the argument in error messages.
"""

from __future__ import annotations

import operator
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn, SupportsIndex

from lakebed.base.errors import InputError, TooLarge
from lakebed.base.files.writing import byte_view

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    Numbers = SupportsIndex | Sequence[SupportsIndex] | ReadableBuffer
    Slices = tuple[ReadableBuffer, ReadableBuffer, ReadableBuffer]  # buffer, positions, lengths

U16_MAX = (1 << 16) - 1
U32_MAX = (1 << 32) - 1
U64_MAX = (1 << 64) - 1
I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
I64_MIN = -(1 << 63)

_RANGES = {"H": (0, U16_MAX), "Q": (0, U64_MAX), "q": (I64_MIN, I64_MAX)}
_SAME_AS_LONG = {"Q": "L", "q": "l"}  # on platforms where a C long has eight bytes
_NATIVE = {"@", "=", "<" if sys.byteorder == "little" else ">"}


def integer(value: SupportsIndex, what: str, *, minimum: int = 0, maximum: int = U64_MAX) -> int:
    """Returns the value as an integer in `[minimum, maximum]`, or raises `InputError`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{what} must be an integer, not {type(value).__name__}") from None
    if not minimum <= number <= maximum:
        raise InputError(f"{what} is {number}, but must be in [{minimum}, {maximum}]")
    return number


def limit(value: SupportsIndex, what: str) -> int:
    """Returns `value`, the maximum of a size or count, as an integer of at most `sys.maxsize`.
    Raises `InputError` if it is negative or not an integer.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{what} must be an integer, not {type(value).__name__}") from None
    if number < 0:
        raise InputError(f"{what} is {number}, but must not be negative")
    return min(number, sys.maxsize)


def items(values: Iterable[object], what: str) -> tuple[object, ...]:
    """Returns the items of `values` as a tuple. Raises `InputError` if it cannot be iterated."""
    try:
        return tuple(values)
    except TypeError:
        raise InputError(f"{what} must be a sequence, not {type(values).__name__}") from None


def numbers(value: Numbers, what: str, *, code: str, count: int) -> int | memoryview:
    """Returns a number that applies to all records, or a view with one number per record. Raises
    `InputError` if a number is out of range, or if `value` is a sequence without `count` items.

    The view is contiguous, in native byte order and of the type code `code`: "Q", "q" or "H". The
    view shares the memory of `value` if `value` has this form already; otherwise it is a copy.
    """
    minimum, maximum = _RANGES[code]
    if isinstance(value, int):
        return integer(value, what, minimum=minimum, maximum=maximum)
    view = _column_view(value)
    if view is None:
        if isinstance(value, SupportsIndex):
            return integer(value, what, minimum=minimum, maximum=maximum)
        values = items(value, what)  # type: ignore[arg-type]
        view = memoryview(_packed(values, what, code))
    elif not _is_native(view, code):
        view = memoryview(_packed(_listed(view, what), what, code))
    if len(view) != count:
        raise InputError(f"{what} has {len(view)} items, expected {count}")
    return view


def bounds(buffer_bytes: int, start: SupportsIndex, end: SupportsIndex) -> tuple[int, int]:
    """Returns `start` and `end` as integers. Raises `InputError` if `[start, end)` is not a range
    of a buffer of `buffer_bytes` bytes.
    """
    last = integer(end, "end", maximum=buffer_bytes)
    return integer(start, "start", maximum=last), last


def column(value: object, what: str, *, code: str) -> memoryview:
    """Returns `value` if it is a contiguous memoryview with the type code `code`; otherwise raises
    `InputError`.
    """
    if not isinstance(value, memoryview) or value.format != code or not value.c_contiguous:
        raise InputError(
            f"{what} must be a contiguous column: a memoryview with the format {code!r}"
        )
    return value


def typed_column(value: object, what: str, *, codes: str) -> tuple[memoryview, str]:
    """Returns a flat view of `value`, and which of the type codes in `codes` it has. Raises
    `InputError` if `value` is not a contiguous column or has none of these type codes.
    """
    view = _column_view(value)
    for code in codes if view is not None else "":
        if _is_native(view, code):  # type: ignore[arg-type]
            return view, code  # type: ignore[return-value]
    kinds = " or ".join(map(repr, codes))
    raise InputError(f"{what} must be a contiguous column of the type {kinds}")


def companion_column(value: object, what: str, *, codes: str, count: int) -> tuple[memoryview, str]:
    """Returns a flat view of `value` and its type code, like `typed_column`. Also raises
    `InputError` if the column does not have `count` items.
    """
    view, code = typed_column(value, what, codes=codes)
    if len(view) != count:
        refuse_count(what, len(view), count)
    return view, code


def sliced(value: object, what: str) -> tuple[object, object, object]:
    """Returns the three parts of `value`: a buffer, and the positions and lengths of its slices."""
    try:
        buffer, positions, lengths = value  # type: ignore[misc]
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a tuple of buffer, positions and lengths") from None
    return buffer, positions, lengths  # type: ignore[has-type]


def refuse_slice(index: int, position: int, length: int, buffer_bytes: int) -> NoReturn:
    raise InputError(
        f"item {index} has {length} bytes at {position}, but the buffer ends at {buffer_bytes}"
    )


def refuse_changed(what: str) -> NoReturn:
    raise InputError(f"{what} changed during the call")


def refuse_bytes(value: object, what: str) -> NoReturn:
    """Raises the `InputError` for a value that is not bytes-like or not contiguous."""
    try:
        contiguous = memoryview(value).c_contiguous  # type: ignore[arg-type]
    except (TypeError, BufferError, ValueError):
        contiguous = True
    if not contiguous:
        raise InputError(f"{what} must be contiguous in memory")
    raise InputError(f"{what} must be a bytes-like object, not {type(value).__name__}")


def refuse_empty(what: str) -> NoReturn:
    raise InputError(f"{what} is empty: a length of 0 marks the end of a segment")


def refuse_large(what: str, size: int, limit: int = U32_MAX) -> NoReturn:
    raise TooLarge(f"the size of {what} in bytes", size=size, limit=limit)


def refuse_count(what: str, found: int, count: int) -> NoReturn:
    raise InputError(f"{what} has {found} items, expected {count}")


def refuse_null(what: str, index: int) -> NoReturn:
    raise InputError(f"{what} {index} is null, which is not allowed")


def refuse_sections(wanted: int, found: int) -> NoReturn:
    raise InputError(f"the header counts add up to {wanted}, but {found} headers were given")


def refuse_distance(index: int, timestamp_ms: int, first_timestamp_ms: int) -> NoReturn:
    raise InputError(
        f"timestamps_ms[{index}] is {timestamp_ms}, too far from first_timestamp_ms, "
        f"{first_timestamp_ms}: the difference does not fit into 64 bits"
    )


def check_last_offset(base: int, count: int) -> None:
    """Raises `InputError` if `count` consecutive offsets from `base` on would exceed 64 bits."""
    if count and base > U64_MAX - (count - 1):
        raise InputError(
            f"{count} records with offsets from {base} on would exceed the largest offset"
        )


def _column_view(value: object) -> memoryview | None:
    """Returns a view of `value` if it has a one-dimensional buffer, otherwise None. A numpy scalar,
    for example, has a buffer without dimensions.
    """
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except (TypeError, BufferError, ValueError):
        return None
    return view if view.ndim == 1 else None


def _is_native(view: memoryview, code: str) -> bool:
    format_code = view.format
    if len(format_code) == 2 and format_code[0] in _NATIVE:
        format_code = format_code[1]
    same = format_code == code or (format_code == _SAME_AS_LONG.get(code) and view.itemsize == 8)
    return same and view.c_contiguous


def _listed(view: memoryview, what: str) -> tuple[object, ...]:
    try:
        return tuple(view.tolist())
    except NotImplementedError:  # another byte order, a structure …
        raise InputError(f"{what} has items of an unsupported format, {view.format!r}") from None


def _packed(values: tuple[object, ...], what: str, code: str) -> array[int]:
    try:
        return array(code, values)  # type: ignore[arg-type]
    except (TypeError, OverflowError, ValueError):
        minimum, maximum = _RANGES[code]
        checked = [
            integer(item, f"{what}[{index}]", minimum=minimum, maximum=maximum)  # type: ignore[arg-type]
            for index, item in enumerate(values)
        ]
        return array(code, checked)


def copied(value: ReadableBuffer, what: str) -> bytes:
    """Returns a copy of the bytes of `value`, which does not change if `value` is changed later."""
    return bytes(byte_view(value, what))
