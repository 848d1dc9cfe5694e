"""Converts one sealed segment from the runtime layout to the interchange layout, or back.

Record ids stay the same in both directions: a record's logical offset is the segment's base offset
plus the record's offset in the runtime file, and the base offset is in the name of either file.
Some fields are lost because the target layout does not have them. A conversion that loses any of
these is refused unless `lossy` is set:

- to interchange, the records lose their ext_ids and the part of their timestamps below a
  millisecond, and the segment loses its base record count, watermark, flush-failure flag and
  sealing time. Every segment has a sealing time, so this direction always needs `lossy`;
- to runtime, the records lose their flags. A segment with gaps between its records, which
  compaction leaves, cannot be converted to runtime: a gap would look like the end of the log.

A conversion to runtime also loses the segment's stream id and its compacted and partial flags,
whether or not `lossy` is set.

Damaged input is refused with an error that gives the offset of the damage, if it is known. Unsealed
input is refused too. The target file appears complete or not at all, and never replaces a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    AOF_RECORD,
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_VERSION,
    RECORDS_START,
    SEGMENT_HEADER,
    SEGMENT_MAGIC,
    SEGMENT_VERSION,
    SegmentFooter,
    SegmentHeader,
    record_bytes,
    records_end_max,
)
from lakebed.aof.inspection import Inspection, SegmentLayout
from lakebed.aof.interchange import (
    InterchangeEncoder,
    InterchangeFooter,
    InterchangeRecord,
    iterate_interchange,
)
from lakebed.aof.paths import SegmentName
from lakebed.aof.record_id import SEGMENT_INDEX_MAX, SEGMENT_OFFSET_MAX, RecordId
from lakebed.aof.segment_inspector import inspect_segment
from lakebed.base.errors import AlreadyExists, BadName, InputError, TooLarge
from lakebed.base.files import Disk, File, PathLike, build_atomically
from lakebed.base.units import MIB
from lakebed.kernels import aof_encode, aof_scan

_NS_PER_MS = 1_000_000
_BATCH_COUNT = 4096  # records converted at a time
_U64_MAX = (1 << 64) - 1
_I64_MAX = (1 << 63) - 1
_BATCH_BYTES = 4 * MIB  # a batch ends earlier when its payloads reach this many bytes


def to_interchange(
    disk: Disk, source: PathLike, target_folder: PathLike, *, stream_id: int, lossy: bool = False
) -> str:
    """Converts a sealed runtime segment to the interchange layout.

    `stream_id` is the id of the log, which the new file stores. The conversion always loses some
    fields of the segment, at least its sealing time (see the module): it raises `InputError` unless
    `lossy` is set. Returns the path of the new file, which is durable.
    """
    _check_range("stream_id", stream_id, _U64_MAX)
    data, inspection = _load(disk, source, SegmentLayout.RUNTIME)
    header, footer = inspection.header, inspection.footer
    if not isinstance(header, SegmentHeader) or not isinstance(footer, SegmentFooter):
        raise InputError(f"{os.fspath(source)}: the segment is empty; there is nothing to convert")
    _check_range(f"{os.fspath(source)}: created_at", header.created_at, _I64_MAX)
    if not lossy:
        _refuse_losses(source, _runtime_losses(data, header, footer))
    name = SegmentName(header.segment_index, header.base_offset, header.created_at)
    encoder = InterchangeEncoder(
        stream_id=stream_id,
        segment_id=header.segment_index,
        creation_ts_ms=header.created_at // _NS_PER_MS,
    )

    def pieces() -> Iterator[bytes]:
        yield encoder.header()
        for batch in _batches(_runtime_records(data, footer.durable_bytes, header.base_offset)):
            yield encoder.records(batch)
        yield encoder.footer(ext_id=footer.ext_id)

    return _publish(disk, target_folder, name, lambda file: _write_pieces(file, pieces()))


def to_runtime(
    disk: Disk,
    source: PathLike,
    target_folder: PathLike,
    *,
    base_record_count: int = 0,
    coordinator_watermark: int = 0,
    sealed_at: int | None = None,
    lossy: bool = False,
) -> str:
    """Converts a sealed interchange segment to the runtime layout.

    Returns the path of the new file, which is durable; its length is rounded up to a power of two.
    `base_record_count`, `coordinator_watermark` and `sealed_at` (ns since 1970) give fields that
    the interchange layout does not have; `sealed_at` defaults to the largest timestamp. Raises
    `InputError` if compaction left gaps between the records, and, unless `lossy` is set, if records
    have flags, which the runtime layout cannot hold.
    """
    name = SegmentName.parse(os.path.basename(os.fspath(source)))
    if name is None:
        raise BadName(
            f"{os.fspath(source)}: the file must have the name of a segment, "
            "<segment_id>_<base_offset>_<created_at>.seg with 20 digits for each number, because "
            "the base offset is taken from it"
        )
    _check_range("base_record_count", base_record_count, _U64_MAX)
    _check_range("coordinator_watermark", coordinator_watermark, _U64_MAX)
    _check_range(f"{os.fspath(source)}: created_at", name.created_at, _I64_MAX)
    data, inspection = _load(disk, source, SegmentLayout.INTERCHANGE)
    newest_ns = inspection.max_timestamp_ns
    _check_range(f"{os.fspath(source)}: the newest timestamp in ns", newest_ns, _U64_MAX)
    sealed_at = inspection.max_timestamp_ns if sealed_at is None else sealed_at
    _check_range("sealed_at", sealed_at, _I64_MAX)
    footer = inspection.footer
    assert isinstance(footer, InterchangeFooter)
    plan = _plan(data, footer.durable_bytes, name, source)
    if plan.flagged_count and not lossy:
        _refuse_losses(source, [f"the flags of {plan.flagged_count} records"])
    header = _runtime_header(name, plan, base_record_count, footer.ext_id)
    sealed = _runtime_footer(header, plan)._replace(
        last_timestamp=inspection.max_timestamp_ns,
        sealed_at=sealed_at,
        coordinator_watermark=coordinator_watermark,
    )
    records = iterate_interchange(data, end=footer.durable_bytes)
    return _publish(
        disk, target_folder, name, lambda file: _write_runtime(file, header, records, sealed)
    )


def _check_range(what: str, value: int, maximum: int) -> None:
    if not 0 <= value <= maximum:
        raise InputError(f"{what} is {value}; it must be from 0 to {maximum}")


# Reading and checking the source.


def _load(disk: Disk, source: PathLike, layout: SegmentLayout) -> tuple[memoryview, Inspection]:
    """Returns the bytes of a segment file and the result of inspecting it.

    Raises a `DataError` if the segment is damaged, and `InputError` if it is not sealed or does not
    have that layout.
    """
    name = SegmentName.parse(os.path.basename(os.fspath(source)))
    with disk.open(source) as file:
        data = memoryview(file.pread(0, file.size()))
    inspection = inspect_segment(data, name=name)
    inspection.require_whole(source)
    if inspection.layout is not layout:
        raise InputError(
            f"{os.fspath(source)}: the segment has the {inspection.layout.value} layout; "
            f"this conversion reads the {layout.value} layout"
        )
    if not inspection.is_sealed:
        raise InputError(
            f"{os.fspath(source)}: the segment is not sealed; only sealed segments can be converted"
        )
    return data, inspection


def _runtime_losses(data: memoryview, header: SegmentHeader, footer: SegmentFooter) -> list[str]:
    fractions = ext_ids = 0
    position = RECORDS_START
    while position < footer.durable_bytes:
        scan = aof_scan(data, position, footer.durable_bytes, count_max=_BATCH_COUNT)
        fractions += sum(stamp % _NS_PER_MS != 0 for stamp in scan.timestamps)
        ext_ids += sum(ext_id != 0 for ext_id in scan.ext_ids)
        position = scan.end
    losses = [f"the nanoseconds of {fractions} timestamps"] if fractions else []
    losses += [f"the ext_ids of {ext_ids} records"] if ext_ids else []
    losses += ["the base record count"] if header.base_record_count else []
    losses += ["the coordinator watermark"] if footer.coordinator_watermark else []
    losses += ["the flush failure"] if footer.flush_failure else []
    return [*losses, "the time of sealing"]


def _refuse_losses(source: PathLike, losses: Iterable[str]) -> None:
    raise InputError(
        f"{os.fspath(source)}: the conversion would lose {', '.join(losses)}; "
        "convert it with the option to accept losses (`lossy=True`, `--lossy`)"
    )


class _Plan(NamedTuple):
    """Totals over the records of an interchange segment, for the new runtime file.

    `end` and `last_offset` are offsets in the runtime file.
    """

    end: int = RECORDS_START
    record_count: int = 0
    last_offset: int = 0
    first_ts_ms: int = 0
    flagged_count: int = 0


def _plan(data: memoryview, end: int, name: SegmentName, source: PathLike) -> _Plan:
    plan = _Plan()
    for record in iterate_interchange(data, end=end):
        offset = record.logical_offset - name.base_offset
        if offset != plan.end:
            raise InputError(
                f"{os.fspath(source)}: the next record should be at segment offset {plan.end} but "
                f"is at {offset}: a segment with such gaps, which compaction leaves, cannot be "
                "converted to the runtime layout"
            )
        plan = _Plan(
            end=offset + record_bytes(len(record.payload)),
            record_count=plan.record_count + 1,
            last_offset=offset,
            first_ts_ms=plan.first_ts_ms if plan.record_count else record.append_ts_ms,
            flagged_count=plan.flagged_count + bool(record.flags),
        )
    if not plan.record_count:
        raise InputError(f"{os.fspath(source)}: the segment is empty; there is nothing to convert")
    if name.segment_id > SEGMENT_INDEX_MAX:
        raise TooLarge(
            f"{os.fspath(source)}: the segment number",
            size=name.segment_id,
            limit=SEGMENT_INDEX_MAX,
        )
    size = _power_of_two(plan.end + FOOTER_BYTES)
    if size > SEGMENT_OFFSET_MAX:
        raise TooLarge(
            f"{os.fspath(source)}: the new file's size in bytes",
            size=size,
            limit=SEGMENT_OFFSET_MAX,
        )
    return plan


def _runtime_header(
    name: SegmentName, plan: _Plan, base_record_count: int, ext_id: int
) -> SegmentHeader:
    return SegmentHeader(
        magic=SEGMENT_MAGIC,
        version=SEGMENT_VERSION,
        header_length=SEGMENT_HEADER.size,
        segment_index=name.segment_id,
        base_record_count=base_record_count,
        base_offset=name.base_offset,
        max_size=_power_of_two(plan.end + FOOTER_BYTES),
        created_at=name.created_at,
        base_timestamp=plan.first_ts_ms * _NS_PER_MS,
        ext_id=ext_id,
    )


def _runtime_footer(header: SegmentHeader, plan: _Plan) -> SegmentFooter:
    """Returns the footer; the caller sets its timestamps, watermark and payload checksum."""
    return SegmentFooter(
        magic=FOOTER_MAGIC,
        version=FOOTER_VERSION,
        reserved=0,
        segment_index=header.segment_index,
        checksum=0,
        base_record_count=header.base_record_count,
        record_count=plan.record_count,
        durable_bytes=plan.end,
        last_record_id=RecordId.from_parts(header.segment_index, plan.last_offset),
        last_timestamp=0,
        sealed_at=0,
        payload_checksum=0,
        ext_id=header.ext_id,
        coordinator_watermark=0,
        flush_failure=0,
    )


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()


# Writing the target.


def _publish(disk: Disk, folder: PathLike, name: SegmentName, build: Callable[[File], None]) -> str:
    target = os.path.join(os.fspath(folder), str(name))
    if disk.exists(target):
        raise AlreadyExists(f"{target}: the file already exists")
    build_atomically(disk, target, build)
    return target


def _write_pieces(file: File, pieces: Iterable[bytes]) -> None:
    offset = 0
    for piece in pieces:
        file.pwrite(offset, piece)
        offset += len(piece)
    file.sync()


def _runtime_records(data: memoryview, end: int, base_offset: int) -> Iterator[InterchangeRecord]:
    position = RECORDS_START
    while position < end:
        scan = aof_scan(data, position, end, count_max=_BATCH_COUNT)
        for offset, length, timestamp in zip(
            scan.offsets, scan.lengths, scan.timestamps, strict=True
        ):
            first = offset + AOF_RECORD.size
            payload = data[first : first + length]
            yield InterchangeRecord(payload, base_offset + offset, timestamp // _NS_PER_MS)
        position = scan.end


def _write_runtime(
    file: File, header: SegmentHeader, records: Iterator[InterchangeRecord], footer: SegmentFooter
) -> None:
    """Writes the header, the records and then the footer with the checksum of the records."""
    file.truncate(header.max_size)
    file.pwrite(0, SEGMENT_HEADER.pack(header))
    offset, crc64 = RECORDS_START, 0
    for batch in _batches(records):
        encoded = aof_encode(
            [record.payload for record in batch],
            timestamps=[record.append_ts_ms * _NS_PER_MS for record in batch],
            ext_ids=0,
            capacity=footer.durable_bytes - offset,
            crc64=crc64,
        )
        assert len(encoded.offsets) == len(batch), "the plan counted the same records"
        file.pwrite(offset, encoded.data)
        offset, crc64 = offset + len(encoded.data), encoded.crc64
    sealed = encode_footer(footer._replace(payload_checksum=crc64))
    file.write_and_sync(records_end_max(header.max_size), [sealed])


def _batches(records: Iterator[InterchangeRecord]) -> Iterator[list[InterchangeRecord]]:
    batch: list[InterchangeRecord] = []
    size = 0
    for record in records:
        batch.append(record)
        size += len(record.payload)
        if len(batch) >= _BATCH_COUNT or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
