"""Encodes the rows of Arrow batches as record batches, divided by partition.

    encoder = Encoder(columns, target, spread=Spread.BY_TURN, first_turn=task, clock=clock)
    for partition, batch in encoder.encoded(arrow_batches):
        staged.append(partition, batch)

Rows keep their order within a partition. Several MiB of rows are collected before they are divided
by partition, so that a topic with many partitions does not get many small batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.errors import InputError, TooLarge
from lakebed.base.units import MIB
from lakebed.keratin.compression import Compression
from lakebed.keratin.format import record_bytes
from lakebed.keratin.record_batch import pack
from lakebed.kernels import murmur2_hashes, record_batch_encode_slices
from lakebed.kernels.format import RECORD_BATCH
from lakebed.spark.sinks.columns import Slices, columns_of, milliseconds_of, sections_of, slices_of

GATHERED_BYTES = 16 * MIB
GATHERED_ROWS = 200_000

_RECORD_BYTES_MAX = 48  # overhead of a message: seven varints
_POSITIVE = 0x7FFFFFFF


class Spread(Enum):
    """How to choose the partition of a message that has neither a partition nor a key."""

    BY_TURN = "turn"  # round robin: even, but depends on the order of the rows
    BY_VALUE = "value"  # by the hash of the value: always the same for the same row


@dataclass(frozen=True, kw_only=True)
class Target:
    """The topic that a task writes to: its limits, and how to encode its batches."""

    topic: str
    partition_count: int
    message_bytes_max: int
    request_bytes_max: int
    batch_bytes: int = MIB
    compression: Compression = Compression.NONE

    @property
    def records_bytes_max(self) -> int:
        """The maximum size in bytes of the records of one batch, before compression."""
        return self.request_bytes_max - record_bytes(0, RECORD_BATCH.size)


class _Messages(NamedTuple):
    """The messages of a group of rows, as columns."""

    values: Slices
    keys: Slices | None
    headers: Slices | None
    timestamps_ms: npt.NDArray[np.int64]

    def taken(self, rows: npt.NDArray[np.intp]) -> _Messages:
        return _Messages(
            self.values.taken(rows),
            None if self.keys is None else self.keys.taken(rows),
            None if self.headers is None else self.headers.taken(rows),
            self.timestamps_ms[rows],
        )

    def part(self, start: int, end: int) -> _Messages:
        return _Messages(
            self.values.part(start, end),
            None if self.keys is None else self.keys.part(start, end),
            None if self.headers is None else self.headers.part(start, end),
            self.timestamps_ms[start:end],
        )

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of each message in bytes: key and value, without headers."""
        sizes = self.values.sizes
        return sizes if self.keys is None else sizes + self.keys.sizes


class Encoder:
    """Encodes the rows that one task writes."""

    def __init__(
        self,
        columns: Mapping[str, int],
        target: Target,
        *,
        spread: Spread,
        first_turn: int,
        clock: Clock,
    ) -> None:
        """Creates an encoder for the rows of Arrow batches.

        `columns` has the index of each column in the batches, by name. Round robin starts with the
        partition `first_turn`, modulo the number of partitions.
        """
        self._columns = columns
        self._target = target
        self._spread = spread
        self._turn = first_turn
        self._clock = clock

    def encoded(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        """Yields encoded record batches, each with the number of its partition.

        Raises `InputError` if a row cannot be written.
        """
        for group in _groups(batches):
            yield from self._encode(columns_of(group, self._columns))

    def _encode(self, columns: Mapping[str, pa.Array]) -> Iterator[tuple[int, bytes]]:
        messages = self._messages(columns)
        self._refuse_nothing(messages)
        sizes = messages.sizes
        if int(sizes.max()) > self._target.message_bytes_max:
            raise TooLarge(
                f"{self._target.topic}: the size of a message in bytes",
                size=int(sizes.max()),
                limit=self._target.message_bytes_max,
            )
        if self._target.partition_count == 1 and "partition" not in columns:
            yield from ((0, batch) for batch in self._batches(messages))
            return
        partitions = self._partitions(columns.get("partition"), messages)
        order = np.argsort(partitions, kind="stable")
        ends = np.cumsum(np.bincount(partitions, minlength=self._target.partition_count))
        start = 0
        for partition, end in enumerate(ends.tolist()):
            if end > start:
                for batch in self._batches(messages.taken(order[start:end])):
                    yield partition, batch
            start = end

    def _messages(self, columns: Mapping[str, pa.Array]) -> _Messages:
        values = slices_of(columns["value"])
        now_ms = self._clock.wall_ns() // NS_PER_MS
        if "timestamp" in columns:
            stamps = milliseconds_of(columns["timestamp"], now_ms=now_ms)
        else:
            stamps = np.full(len(values.lengths), now_ms, np.int64)
        keys = slices_of(columns["key"]) if "key" in columns else None
        headers = sections_of(columns["headers"]) if "headers" in columns else None
        return _Messages(values, keys, headers, stamps)

    def _refuse_nothing(self, messages: _Messages) -> None:
        """Raises `InputError` if a message has neither a value nor a key.

        A null value means that its key is deleted, so it needs a key. An append to a topic refuses
        such messages too.
        """
        is_nothing = messages.values.lengths < 0
        if messages.keys is not None:
            is_nothing &= messages.keys.lengths < 0
        if is_nothing.any():
            raise InputError(
                f"{self._target.topic}: cannot write rows with neither a value nor a key: "
                f"{int(is_nothing.sum())} of them; filter them out"
            )

    def _partitions(
        self, column: pa.Array | None, messages: _Messages
    ) -> npt.NDArray[np.uint16 | np.int64]:
        """Returns the partition of each message.

        Uses 16-bit numbers if they are large enough, because they are faster to sort.
        """
        count = self._target.partition_count
        numbers = self._spread_out(messages)
        if messages.keys is not None:
            hashes = np.frombuffer(murmur2_hashes(messages.keys.raw), np.uint32)
            has_key = messages.keys.lengths >= 0
            numbers = np.where(has_key, (hashes & _POSITIVE) % count, numbers)
        if column is not None:
            requested = column.cast(pa.int64()).fill_null(-1).to_numpy()
            is_requested = column.is_valid().to_numpy(zero_copy_only=False)
            wrong = requested[is_requested & ((requested < 0) | (requested >= count))]
            if len(wrong):
                raise InputError(
                    f"{self._target.topic}: partition {int(wrong[0])} does not exist "
                    f"(the topic has {count} partitions)"
                )
            numbers = np.where(is_requested, requested, numbers)
        return numbers.astype(np.uint16 if count <= 1 << 16 else np.int64)

    def _spread_out(self, messages: _Messages) -> npt.NDArray[np.int64]:
        count = self._target.partition_count
        if self._spread is Spread.BY_VALUE:
            hashes = np.frombuffer(murmur2_hashes(messages.values.raw), np.uint32)
            return ((hashes & _POSITIVE) % count).astype(np.int64)
        row_count = len(messages.timestamps_ms)
        first, self._turn = self._turn, (self._turn + row_count) % count
        return (np.arange(first, first + row_count) % count).astype(np.int64)

    def _batches(self, messages: _Messages) -> Iterator[bytes]:
        """Divides the messages into batches that do not exceed the limits, and encodes them.

        The size of a record is estimated with the maximum overhead.
        """
        sizes = messages.sizes + _RECORD_BYTES_MAX
        if messages.headers is not None:
            sizes += messages.headers.sizes
        ends = np.cumsum(sizes)
        start, count = 0, len(ends)
        room = min(self._target.batch_bytes, self._target.records_bytes_max)
        while start < count:
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + room, side="right")))
            yield self._batch(messages.part(start, end))
            start = end

    def _batch(self, messages: _Messages) -> bytes:
        stamps = messages.timestamps_ms
        first_ms = int(stamps[0])
        limit = self._target.records_bytes_max
        records = record_batch_encode_slices(
            messages.values.raw,
            None if messages.keys is None else messages.keys.raw,
            None if messages.headers is None else messages.headers.raw,
            timestamps_ms=stamps.data,
            first_timestamp_ms=first_ms,
            capacity=limit,
        )
        if records.message_count < len(stamps):
            raise TooLarge(
                f"{self._target.topic}: the size of a message with its headers in bytes",
                size=None,
                limit=limit,
            )
        return pack(
            records.data,
            message_count=records.message_count,
            first_timestamp_ms=first_ms,
            max_timestamp_ms=int(stamps.max()),
            compression=self._target.compression,
        )


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Groups consecutive batches, up to about 16 MiB or 200,000 rows per group.

    So a group stays below the size that Arrow can concatenate.
    """
    group: list[pa.RecordBatch] = []
    byte_count = row_count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_full = byte_count + batch.nbytes > GATHERED_BYTES or row_count > GATHERED_ROWS
        if group and is_full:
            yield group
            group, byte_count, row_count = [], 0, 0
        group.append(batch)
        byte_count += batch.nbytes
        row_count += batch.num_rows
    if group:
        yield group
