"""Encodes messages that are slices of a few large buffers, as in Arrow columns, in plain Python
like `reference`.

Slices are passed as a tuple of a buffer and two columns: positions (u64 or u32) and lengths (i32 or
u32). A negative length means a null; its position is ignored. A slice outside the buffer raises
`InputError`.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, SupportsIndex

from lakebed.base.files.writing import byte_view
from lakebed.kernels import arguments
from lakebed.kernels.arguments import I32_MAX
from lakebed.kernels.format import MURMUR2_MULTIPLIER, MURMUR2_SEED
from lakebed.kernels.reference_batches import record_batch_encode
from lakebed.kernels.results import BatchEncoded, Column, Gathered
from lakebed.kernels.varints import varint

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from lakebed.kernels.arguments import Numbers, Slices

_MASK = 0xFFFFFFFF
_NULL = varint(-1)


def record_batch_encode_slices(
    values: Slices,
    keys: Slices | None = None,
    headers: Slices | None = None,
    *,
    timestamps_ms: Numbers,
    first_timestamp_ms: SupportsIndex,
    capacity: SupportsIndex,
) -> BatchEncoded:
    """Encodes messages like `record_batch_encode`, but their values, keys and headers are slices of
    buffers.
    """
    value_views = _short_views(values, "values", "value")
    count = len(value_views)
    return record_batch_encode(
        value_views,
        _companion_views(keys, "keys", "key", count),
        _companion_views(headers, "headers", "header", count),
        timestamps_ms=timestamps_ms,
        first_timestamp_ms=first_timestamp_ms,
        capacity=capacity,
    )


def record_batch_sections(counts: ReadableBuffer, names: Slices, values: Slices) -> Gathered:
    """Encodes the headers of messages in the form that `record_batch_encode` takes, as one section
    per message.

    `counts` has the number of headers of each message; `names` and `values` have the headers of all
    messages one after another. A section is the count and the headers, or no bytes if there are no
    headers. It is not checked whether names are valid text. Raises `TooLarge` if the total size
    exceeds an i32.
    """
    name_views = _short_views(names, "names", "name")
    value_views = _views(values, "values")
    if len(value_views) != len(name_views):
        arguments.refuse_count("values", len(value_views), len(name_views))
    _checked(value_views, "value")
    for index, name in enumerate(name_views):
        if name is None:
            arguments.refuse_null("name", index)
    numbers, _ = arguments.typed_column(counts, "counts", codes="I")
    if sum(numbers) != len(name_views):
        arguments.refuse_sections(sum(numbers), len(name_views))
    headers = iter(zip(name_views, value_views, strict=True))
    data = bytearray()
    offsets = array("i", [0])
    for number in numbers:
        if number:
            data += varint(number)
        for _ in range(number):
            name, value = next(headers)
            data += _bytes(name) + _bytes(value)
            if len(data) > I32_MAX:
                arguments.refuse_large("the column", len(data), I32_MAX)
        offsets.append(len(data))
    return Gathered(bytes(data), memoryview(offsets).toreadonly(), None, 0)


def murmur2(key: ReadableBuffer) -> int:
    """Returns the murmur2 hash of a key, which decides the partition of a message."""
    return _murmur2(byte_view(key, "a key"))


def murmur2_hashes(slices: Slices) -> Column:
    """Returns the murmur2 hash of each key in `slices`, or 0 for a null."""
    hashes = [0 if view is None else _murmur2(view) for view in _views(slices, "slices")]
    return memoryview(array("I", hashes)).toreadonly()


def _murmur2(key: memoryview) -> int:
    """Computes the same hash as Kafka's Java client."""
    mixed = MURMUR2_SEED ^ len(key) & _MASK
    whole = len(key) & ~3
    for start in range(0, whole, 4):
        part = int.from_bytes(key[start : start + 4], "little") * MURMUR2_MULTIPLIER & _MASK
        part = (part ^ part >> 24) * MURMUR2_MULTIPLIER & _MASK
        mixed = (mixed * MURMUR2_MULTIPLIER & _MASK) ^ part
    if whole < len(key):
        rest = int.from_bytes(key[whole:], "little")
        mixed = (mixed ^ rest) * MURMUR2_MULTIPLIER & _MASK
    mixed = (mixed ^ mixed >> 13) * MURMUR2_MULTIPLIER & _MASK
    return mixed ^ mixed >> 15


def _bytes(view: memoryview | None) -> bytes:
    return _NULL if view is None else varint(len(view)) + bytes(view)


def _companion_views(
    slices: Slices | None, plural: str, what: str, count: int
) -> list[memoryview | None] | None:
    """Returns one view per message, or None if `slices` is None."""
    if slices is None:
        return None
    views = _views(slices, plural)
    if len(views) != count:
        arguments.refuse_count(plural, len(views), count)
    return _checked(views, what)


def _short_views(slices: Slices, plural: str, what: str) -> list[memoryview | None]:
    return _checked(_views(slices, plural), what)


def _checked(views: list[memoryview | None], what: str) -> list[memoryview | None]:
    """Returns the views unchanged. Raises `TooLarge` if one is longer than an i32 allows."""
    for index, view in enumerate(views):
        if view is not None and len(view) > I32_MAX:
            arguments.refuse_large(f"{what} {index}", len(view), I32_MAX)
    return views


def _views(slices: Slices, what: str) -> list[memoryview | None]:
    buffer, positions, lengths = arguments.sliced(slices, what)
    starts, _ = arguments.typed_column(positions, f"{what} positions", codes="QI")
    sizes, _ = arguments.companion_column(lengths, f"{what} lengths", codes="iI", count=len(starts))
    view = byte_view(buffer, f"{what} buffer")  # type: ignore[arg-type]
    found: list[memoryview | None] = []
    for index, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if size >= 0 and start + size > len(view):
            arguments.refuse_slice(index, start, size, len(view))
        found.append(None if size < 0 else view[start : start + size])
    return found
