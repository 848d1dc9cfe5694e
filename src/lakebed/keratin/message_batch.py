"""Batches of messages as readers receive them, with the messages' fields as columns.

A batch is a run of plain records, or the messages of one batch record. It never contains control
records. Iterating over it yields `Message` objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import repeat

from lakebed.base.errors import Corrupt
from lakebed.base.files import PathLike
from lakebed.keratin.decoded_batch import DecodedBatch
from lakebed.keratin.format import KERATIN_RECORD, RecordFlags
from lakebed.keratin.headers import (
    BLOCK_START,
    HAS_KEY,
    HAS_PRODUCER,
    HEADER_COUNT,
    KEY_LENGTH,
    PRODUCER,
    VERSION,
    BlockStart,
    HeadersBlock,
    KeyLength,
    decode_headers,
)
from lakebed.keratin.message import Message
from lakebed.keratin.run import Run
from lakebed.kernels.results import Column

_KEY_AT = BLOCK_START.size + KEY_LENGTH.size
_NO_HEADERS = bytes(HEADER_COUNT.size)
_PRODUCER_ALONE = BLOCK_START.pack(BlockStart(VERSION, HAS_PRODUCER))
_PRODUCER_ALONE_BYTES = BLOCK_START.size + PRODUCER.size + HEADER_COUNT.size
_NO_BLOCK = HeadersBlock()
_COLUMNS = Run._fields.index("positions")  # the fields of a run from here on are columns
_TOMBSTONE = int(RecordFlags.TOMBSTONE)  # a plain number: operations on enum flags are slow
_MAKE: Callable[[tuple[object, ...]], Message] = partial(tuple.__new__, Message)


class MessageBatch(ABC):
    """One or more consecutive messages whose checksums were verified.

    - `offsets` (u64), `timestamps_ms` (u64, or i64 in a batch record) and `flags` (u16) are columns
      with one item per message;
    - `values()` and `keys()` yield views of the bytes read or inflated. The views stay valid after
      the reader is closed.
    """

    __slots__ = ("flags", "offsets", "timestamps_ms")

    offsets: Column
    timestamps_ms: Column
    flags: Column

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def next_offset(self) -> int:
        """The offset after the last message."""
        return int(self.offsets[-1]) + 1

    @property
    @abstractmethod
    def size(self) -> int:
        """The size in bytes of all keys, values and headers as they are encoded, uncompressed."""

    @abstractmethod
    def __iter__(self) -> Iterator[Message]: ...

    @abstractmethod
    def message(self, index: int) -> Message: ...

    @abstractmethod
    def values(self) -> Iterator[memoryview | None]:
        """Yields a view of each value; None for a tombstone."""

    @abstractmethod
    def keys(self) -> Iterator[memoryview | None]:
        """Yields a view of each key; None for a message without a key."""

    @abstractmethod
    def part(self, first: int, last: int) -> MessageBatch:
        """Returns the messages with indexes `[first, last)`, without copying.

        The range must not be empty.
        """


class PlainMessages(MessageBatch):
    """The messages of plain records. `run` holds the position of each value and headers block.

    Headers blocks are decoded on access, which raises `Corrupt` if a block is malformed, and
    `UnknownVersion` if it has a newer version.
    """

    __slots__ = ("_path", "run")

    def __init__(self, run: Run, *, path: PathLike) -> None:
        self.run = run
        self.offsets = run.offsets
        self.timestamps_ms = run.timestamps_ms
        self.flags = run.flags
        self._path = path

    @property
    def size(self) -> int:
        return sum(self.run.payload_lengths) + sum(self.run.header_lengths)

    def __iter__(self) -> Iterator[Message]:
        """Yields all messages. This is about three times as fast as calling `message` for each."""
        if not _is_zero(self.run.header_lengths) or not _is_zero(self.flags):
            return self._with_headers()
        values = map(bytes, self._payloads())
        none, empty, zero = repeat(None), repeat(()), repeat(0)
        columns = (self.offsets, self.timestamps_ms, none, values, empty, zero)
        return map(_MAKE, zip(*columns, strict=False))

    def message(self, index: int) -> Message:
        block, flags = self._block(index), self.flags[index]
        return Message(
            self.offsets[index],
            self.timestamps_ms[index],
            block.key,
            None if flags & _TOMBSTONE else bytes(self.run.payload(index)),
            block.headers,
            flags,
        )

    def values(self) -> Iterator[memoryview | None]:
        if _is_zero(self.flags):
            return self._payloads()
        return (
            None if flags & _TOMBSTONE else payload
            for flags, payload in zip(self.flags, self._payloads(), strict=True)
        )

    def keys(self) -> Iterator[memoryview | None]:
        run = self.run
        return (
            self._key(index) if length else None for index, length in enumerate(run.header_lengths)
        )

    def part(self, first: int, last: int) -> PlainMessages:
        return PlainMessages(self.run.part(first, last), path=self._path)

    def _payloads(self) -> Iterator[memoryview]:
        run = self.run
        buffer, fixed = run.buffer, KERATIN_RECORD.size
        for position, skipped, length in zip(
            run.positions, run.header_lengths, run.payload_lengths, strict=True
        ):
            start = position + fixed + skipped
            yield buffer[start : start + length]

    def _with_headers(self) -> Iterator[Message]:
        run, fixed = self.run, KERATIN_RECORD.size
        buffer = run.buffer
        for index, row in enumerate(zip(*run[_COLUMNS:], strict=True)):
            position, offset, timestamp_ms, flags, header_length, payload_length = row
            start = position + fixed
            middle = start + header_length
            key, _, headers = _NO_BLOCK
            if header_length:
                block = bytes(buffer[start:middle])
                if not _is_producer_alone(block):
                    key = _key_alone(block)
                    if key is None:
                        key, _, headers = self._decoded(block, index)
            value = None
            if not flags & _TOMBSTONE:
                value = bytes(buffer[middle : middle + payload_length])
            yield _MAKE((offset, timestamp_ms, key, value, headers, flags))

    def _block(self, index: int) -> HeadersBlock:
        """Decodes the headers block of a message.

        The producer is left out of the result if the message has a key but no user headers.
        """
        block = bytes(self.run.headers(index))
        key = _key_alone(block)
        return self._decoded(block, index) if key is None else HeadersBlock(key)

    def _decoded(self, block: bytes, index: int) -> HeadersBlock:
        try:
            return decode_headers(block)
        except Corrupt as error:
            position = self.run.origin + int(self.run.positions[index])
            raise Corrupt(error.problem, path=self._path, offset=position) from None

    def _key(self, index: int) -> memoryview | None:
        view = self.run.headers(index)
        key = _key_alone(bytes(view))
        if key is not None:
            return view[_KEY_AT : _KEY_AT + len(key)]
        decoded = self._block(index).key
        return None if decoded is None else memoryview(decoded)


class PackedMessages(MessageBatch):
    """The messages with indexes `[first, last)` of one batch record, after decompression."""

    __slots__ = ("_first", "batch")

    def __init__(self, batch: DecodedBatch, first: int = 0, last: int | None = None) -> None:
        last = len(batch) if last is None else last
        self.batch = batch
        self._first = first
        self.offsets = batch.columns.offsets[first:last]
        self.timestamps_ms = batch.columns.timestamps_ms[first:last]
        null_flags = int(batch.record_flags | RecordFlags.TOMBSTONE)
        other_flags = int(batch.record_flags)
        lengths = batch.columns.value_lengths[first:last]
        flags = array("H", [null_flags if length < 0 else other_flags for length in lengths])
        self.flags = memoryview(flags).toreadonly()

    @property
    def size(self) -> int:
        columns = self.batch.columns
        lengths = (columns.key_lengths, columns.value_lengths, columns.header_lengths)
        own = slice(self._first, self._first + len(self))
        return sum(max(length, 0) for column in lengths for length in column[own])

    def __iter__(self) -> Iterator[Message]:
        if len(self) == len(self.batch):
            return iter(self.batch)
        return map(self.message, range(len(self)))

    def message(self, index: int) -> Message:
        batch, batch_index = self.batch, self._first + index
        key, value = batch.key(batch_index), batch.value(batch_index)
        return Message(
            self.offsets[index],
            self.timestamps_ms[index],
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            batch.headers(batch_index),
            self.flags[index],
        )

    def values(self) -> Iterator[memoryview | None]:
        return map(self.batch.value, range(self._first, self._first + len(self)))

    def keys(self) -> Iterator[memoryview | None]:
        return map(self.batch.key, range(self._first, self._first + len(self)))

    def part(self, first: int, last: int) -> PackedMessages:
        assert 0 <= first < last <= len(self), "a part of a batch must not be empty"
        return PackedMessages(self.batch, self._first + first, self._first + last)


def key_of_block(block: memoryview | bytes) -> bytes | None:
    """Returns the key in a headers block, or None if it has no key.

    This is fast if the block has a key and no user headers. Raises `Corrupt` if the block is
    malformed, and `UnknownVersion` if it has a newer version.
    """
    data = bytes(block)
    key = _key_alone(data)
    return decode_headers(data).key if key is None else key


def _key_alone(block: bytes) -> bytes | None:
    """Returns the key of a headers block that has a key but no user headers.

    Returns None for any other block.
    """
    if block.endswith(_NO_HEADERS):
        for start, key_end in _starts_of_key_alone(len(block)):
            if block.startswith(start):
                return block[_KEY_AT:key_end]
    return None


@lru_cache(maxsize=1024)
def _starts_of_key_alone(block_bytes: int) -> list[tuple[bytes, int]]:
    """Returns how a headers block of that length begins if it has a key but no user headers.

    There are up to two possible beginnings: without a producer and with one. Each is returned with
    the position at which the key ends.
    """
    starts = []
    for flags, producer_bytes in ((HAS_KEY, 0), (HAS_KEY | HAS_PRODUCER, PRODUCER.size)):
        key_end = block_bytes - HEADER_COUNT.size - producer_bytes
        if key_end >= _KEY_AT:
            start = BLOCK_START.pack(BlockStart(VERSION, flags))
            starts.append((start + KEY_LENGTH.pack(KeyLength(key_end - _KEY_AT)), key_end))
    return starts


def _is_producer_alone(block: bytes) -> bool:
    return (
        len(block) == _PRODUCER_ALONE_BYTES
        and block.startswith(_PRODUCER_ALONE)
        and block.endswith(_NO_HEADERS)
    )


def _is_zero(column: Column) -> bool:
    """Returns whether all items are zero, using a single memory comparison."""
    return column.tobytes() == bytes(column.nbytes)
