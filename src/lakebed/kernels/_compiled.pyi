"""The compiled kernels. `lakebed.kernels.reference` describes the functions."""

from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from _typeshed import ReadableBuffer

from lakebed.base.files.writing import WriteOutcome
from lakebed.kernels.arguments import Numbers, Slices
from lakebed.kernels.results import (
    AofEncoded,
    AofScan,
    BatchEncoded,
    BatchRecords,
    Gathered,
    HeaderPlaces,
    KeratinEncoded,
    KeratinFields,
    KeratinProducers,
    KeratinScan,
)

SOURCE_HASH: str

def features() -> tuple[str, ...]: ...
def features_available() -> tuple[str, ...]: ...
def set_features(names: Iterable[str]) -> None: ...
def crc32c(data: ReadableBuffer, crc: SupportsIndex = 0) -> int: ...
def crc64nvme(data: ReadableBuffer, crc: SupportsIndex = 0) -> int: ...
def fold64(crc: int) -> int: ...
def crc32_combine(first: SupportsIndex, second: SupportsIndex, length: SupportsIndex) -> int: ...
def crc32c_combine(first: SupportsIndex, second: SupportsIndex, length: SupportsIndex) -> int: ...
def crc64_combine(first: SupportsIndex, second: SupportsIndex, length: SupportsIndex) -> int: ...
def aof_encode(
    payloads: Iterable[ReadableBuffer],
    *,
    timestamps: Numbers,
    ext_ids: Numbers,
    capacity: SupportsIndex,
    crc64: SupportsIndex = 0,
) -> AofEncoded: ...

class AofBatch:
    size: int
    offsets: memoryview
    @property
    def crc64(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def aof_batch(
    payloads: Iterable[ReadableBuffer],
    *,
    timestamps: Numbers,
    ext_ids: Numbers,
    capacity: SupportsIndex,
) -> AofBatch: ...
def aof_scan(
    buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex, *, count_max: SupportsIndex
) -> AofScan: ...
def aof_find(buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex) -> int: ...
def keratin_encode(
    payloads: Iterable[ReadableBuffer],
    headers: Sequence[ReadableBuffer | None] | None,
    *,
    offsets: Numbers,
    timestamps_ms: Numbers,
    flags: Numbers,
    capacity: SupportsIndex,
) -> KeratinEncoded: ...

class KeratinBatch:
    size: int
    positions: memoryview
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def keratin_batch(
    payloads: Iterable[ReadableBuffer],
    headers: Sequence[ReadableBuffer | None] | None,
    *,
    offsets: Numbers,
    timestamps_ms: Numbers,
    flags: Numbers,
    capacity: SupportsIndex,
) -> KeratinBatch: ...
def bytes_lengths(values: Iterable[object]) -> tuple[int, int] | None: ...
def keratin_scan(
    buffer: ReadableBuffer, start: SupportsIndex, end: SupportsIndex, *, count_max: SupportsIndex
) -> KeratinScan: ...
def record_batch_encode(
    values: Iterable[ReadableBuffer | None],
    keys: Iterable[ReadableBuffer | None] | None = None,
    headers: Iterable[ReadableBuffer | None] | None = None,
    *,
    timestamps_ms: Numbers,
    first_timestamp_ms: SupportsIndex,
    capacity: SupportsIndex,
) -> BatchEncoded: ...
def record_batch_decode(
    buffer: ReadableBuffer,
    start: SupportsIndex,
    end: SupportsIndex,
    *,
    count: SupportsIndex,
    first_offset: SupportsIndex = 0,
    first_timestamp_ms: SupportsIndex = 0,
) -> BatchRecords: ...
def record_batch_slices(
    buffer: ReadableBuffer, positions: memoryview, lengths: memoryview
) -> list[bytes | None]: ...
def gather(
    buffer: ReadableBuffer, positions: ReadableBuffer, lengths: ReadableBuffer
) -> Gathered: ...
def keratin_fields(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    header_lengths: ReadableBuffer,
    payload_lengths: ReadableBuffer,
    flags: ReadableBuffer,
) -> KeratinFields: ...
def keratin_producers(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    offsets: ReadableBuffer,
    flags: ReadableBuffer,
    header_lengths: ReadableBuffer,
    payload_lengths: ReadableBuffer,
) -> KeratinProducers: ...
def record_batch_headers(
    buffer: ReadableBuffer,
    positions: ReadableBuffer,
    lengths: ReadableBuffer,
    counts: ReadableBuffer,
) -> HeaderPlaces: ...
def record_batch_encode_slices(
    values: Slices,
    keys: Slices | None = None,
    headers: Slices | None = None,
    *,
    timestamps_ms: Numbers,
    first_timestamp_ms: SupportsIndex,
    capacity: SupportsIndex,
) -> BatchEncoded: ...
def record_batch_sections(counts: ReadableBuffer, names: Slices, values: Slices) -> Gathered: ...
def murmur2(key: ReadableBuffer) -> int: ...
def murmur2_hashes(slices: Slices) -> memoryview: ...
def write_and_sync(
    fd: SupportsIndex, offset: SupportsIndex, chunks: Iterable[ReadableBuffer], *, sync: bool
) -> WriteOutcome: ...
def zero_fill(fd: SupportsIndex, offset: SupportsIndex, length: SupportsIndex) -> WriteOutcome: ...
