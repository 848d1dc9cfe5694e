"""Repairs damaged sealed segments: keeps the good records, and moves bad bytes to the quarantine.

The bad bytes are durable in the quarantine before a log without them replaces the old log. Losses
are reported as ranges of offsets. Records are never reconstructed. Only sealed segments are
repaired here: recovery fixes the newest segment when the partition is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class RepairedSegment(NamedTuple):
    """The result of repairing one segment."""

    rewritten: RewrittenSegment
    damages: tuple[LogDamage, ...]  # with the offsets that may be lost
    saved: tuple[str, ...]  # the files in the quarantine, one for each bad byte range


def repair_segment(
    disk: Disk,
    paths: PartitionPaths,
    info: PartitionSegment,
    *,
    index_stride_bytes: int,
    created_ms: int,
    record: Callable[..., None] | None = None,
) -> RepairedSegment | None:
    """Rewrites a sealed segment without its bad bytes; returns None if the segment is whole.

    `created_ms` is the creation time for the new log if the header of the old one is damaged.
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
        saved = tuple(
            _save(disk, paths, log, start, end)
            for start, end in _bad_stretches(inspection, log.size)
        )
    finally:
        log.close()
    if record is not None:
        record(*(_loss(paths, info, damage, saved) for damage in inspection.damages))
    rewritten = rewrite_ranges(
        disk,
        paths,
        info,
        _without(inspection),
        index_stride_bytes=index_stride_bytes,
        created_ms=created_ms,
    )
    return RepairedSegment(rewritten, inspection.damages, saved)


def _loss(
    paths: PartitionPaths, info: PartitionSegment, damage: LogDamage, saved: Sequence[str]
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
        saved=tuple(path for path in saved if path.endswith(f"-{damage.start}.bin")),
    )


def _bad_stretches(inspection: LogInspection, size: int) -> list[tuple[int, int]]:
    stretches = [(damage.start, min(damage.end, size)) for damage in inspection.damages]
    if inspection.header_error is not None:
        stretches.insert(0, (0, min(RECORDS_START, size)))
    return [(start, end) for start, end in stretches if start < end]


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


def _save(disk: Disk, paths: PartitionPaths, log: LogBytes, start: int, end: int) -> str:
    name = f"keratin-{paths.name}-{log.base_offset:020}.log-{start}.bin"
    return save_in_quarantine(disk, paths.quarantine, name, log.bytes_at(start, end))
