"""Compares a manifest log with the segments on disk, and finds the records that it lacks.

Records may be missing after a crash between the change of a segment and its record, or because the
manifest log was off. The segments on disk are authoritative. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lakebed.aof.format import SegmentFooter
from lakebed.aof.manifest.format import HydrationDone, LocalEvicted, SealSegment, SegmentOpened
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import Payload
from lakebed.aof.manifest.state import Residency


class SegmentOnDisk(NamedTuple):
    segment_id: int
    base_offset: int


class MissingRecord(NamedTuple):
    """A record that must be added to the manifest log."""

    payload: Payload
    segment_id: int
    logical_offset: int


def reconcile(
    index: ManifestIndex,
    on_disk: Sequence[SegmentOnDisk],
    *,
    epoch: int,
    footers: Mapping[int, SegmentFooter],
) -> Iterator[MissingRecord]:
    """Yields the records that make the index agree with the segments on disk.

    `footers` has, by id, the footers of the sealed segments that are not sealed in the index.
    """
    ids_on_disk = {segment.segment_id for segment in on_disk}
    for state in index.segments():
        if state.residency & Residency.TIER0 and state.segment_id not in ids_on_disk:
            end = state.base_offset + state.durable_bytes
            yield MissingRecord(LocalEvicted(state.resident_bytes), state.segment_id, end)
    for segment in on_disk:
        recorded = index.get(segment.segment_id)
        # The base offset on record is wrong if the manifest log was off when a segment that had
        # never become durable was opened again.
        is_other = (
            recorded is not None
            and not recorded.is_sealed
            and recorded.base_offset != segment.base_offset
        )
        if recorded is None or not recorded.is_opened or is_other:
            payload: Payload = SegmentOpened(segment.base_offset, epoch)
            yield MissingRecord(payload, segment.segment_id, segment.base_offset)
        elif not recorded.residency & Residency.TIER0:
            # Its eviction was recorded, but a crash came before its file was removed.
            end = segment.base_offset + recorded.durable_bytes
            yield MissingRecord(HydrationDone(recorded.durable_bytes), segment.segment_id, end)
        footer = footers.get(segment.segment_id)
        if footer is not None:
            yield MissingRecord(
                SealSegment(
                    durable_bytes=footer.durable_bytes,
                    segment_crc64=footer.payload_checksum,
                    ext_id=footer.ext_id,
                    coordinator_watermark=footer.coordinator_watermark,
                    flush_failure=footer.flush_failure,
                ),
                segment.segment_id,
                segment.base_offset + footer.durable_bytes,
            )
