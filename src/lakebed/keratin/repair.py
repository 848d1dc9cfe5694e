"""Repairs damaged sealed segments: keeps the good records, and moves bad bytes to the quarantine.

The bad bytes are durable in the quarantine before a log without them replaces the old log. Losses
are reported as ranges of offsets. Records are never reconstructed. Only sealed segments are
repaired here. When a partition is opened, recovery cuts torn bytes of the newest segment, and seals
it if it is damaged, so that it can be repaired here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakebed.base.damage import Verdict
from lakebed.base.damage_ledger import TOPICS, Loss
from lakebed.base.errors import InputError
from lakebed.base.files import Disk
from lakebed.base.files.quarantine import save_in_quarantine
from lakebed.base.files.salvage import SalvagedBytes
from lakebed.keratin.format import RECORDS_START
from lakebed.keratin.log_bytes import LogBytes
from lakebed.keratin.log_inspection import GoodRange, LogDamage, LogInspection, inspect_log
from lakebed.keratin.paths import PartitionPaths
from lakebed.keratin.segment_rewrite import RewrittenSegment, rewrite_ranges
from lakebed.keratin.view import PartitionSegment
from lakebed.kernels import crc32c


class RepairedSegment(NamedTuple):
    """The result of repairing one segment."""

    rewritten: RewrittenSegment
    damages: tuple[LogDamage, ...]  # that of the header first; with the offsets that may be lost
    saved: tuple[str, ...]  # the files in the quarantine, one for each bad byte range


def repair_segment(
    disk: Disk,
    paths: PartitionPaths,
    info: PartitionSegment,
    *,
    start_offset: int,
    index_stride_bytes: int,
    created_ms: int,
    record: Callable[..., None] | None = None,
) -> RepairedSegment | None:
    """Rewrites a sealed segment without its bad bytes; returns None if the segment is whole.

    Messages before `start_offset`, the start of the partition, do not count as lost. `created_ms`
    is the creation time for the new log if the header of the old log is damaged.
    `record` is called once, with all losses, before the new log replaces the old one. Raises
    `InputError` if the segment is not sealed.
    """
    if not info.is_sealed:
        raise InputError(
            f"{info.path}: the segment is not sealed; open the partition for writing to repair it"
        )
    source = SalvagedBytes(disk.open(info.path))
    log = LogBytes(source, path=info.path, base_offset=info.base_offset)
    try:
        inspection = inspect_log(log, sealed_end=info.end, next_offset=info.next_offset)
        if inspection.verdict is Verdict.WHOLE:
            return None
        if inspection.header_error is None:
            created_ms = log.header().created_ms
        damages = tuple(damage.since(start_offset) for damage in _damages(inspection, info))
        saved = [_save(disk, paths, log, damage) for damage in damages]
    finally:
        log.close()
    if record is not None:
        record(*(_loss(paths, info, *pair) for pair in zip(damages, saved, strict=True)))
    rewritten = rewrite_ranges(
        disk,
        paths,
        info,
        _without(inspection),
        index_stride_bytes=index_stride_bytes,
        created_ms=created_ms,
    )
    return RepairedSegment(rewritten, damages, tuple(path for path in saved if path is not None))


def _loss(
    paths: PartitionPaths, info: PartitionSegment, damage: LogDamage, saved: str | None
) -> Loss:
    has_messages = damage.first_offset < damage.next_offset
    return Loss(
        engine=TOPICS,
        name=paths.topic,
        partition=paths.number,
        path=info.path,
        start=damage.start,
        end=damage.end,
        first_offset=damage.first_offset if has_messages else None,
        next_offset=damage.next_offset if has_messages else None,
        problem=damage.problem,
        saved=() if saved is None else (saved,),
    )


def _damages(inspection: LogInspection, info: PartitionSegment) -> list[LogDamage]:
    """Returns all damage, beginning with that of the header, which costs no messages."""
    error, base = inspection.header_error, info.base_offset
    header = [] if error is None else [LogDamage(0, RECORDS_START, base, base, error.problem)]
    return [*header, *inspection.damages]


def _without(inspection: LogInspection) -> list[GoodRange]:
    """Returns the good ranges, without the batch records in them that cannot be decoded."""
    ranges: list[GoodRange] = []
    for good in inspection.good_ranges:
        inside = [damage for damage in inspection.damages if good.start <= damage.start < good.end]
        start = good.start
        for damage in sorted(inside):
            if start < damage.start:
                ranges.append(good._replace(start=start, end=damage.start))
            start = damage.end
        if start < good.end:
            ranges.append(good._replace(start=start))
    return ranges


def _save(disk: Disk, paths: PartitionPaths, log: LogBytes, damage: LogDamage) -> str | None:
    """Copies the bad bytes to the quarantine, unless the log ends before them.

    Returns the path of the copy.
    """
    start, end = damage.start, min(damage.end, log.size)
    if start >= end:
        return None
    data = log.bytes_at(start, end)
    what = f"{log.base_offset:020}.log-{start}"
    name = paths.saved_name(what, checksum=crc32c(data))
    return save_in_quarantine(disk, paths.quarantine, name, data)
