"""What a manifest log does not know of the segments on disk. Pure.

The segments are what counts. A crash may come between a change of theirs and its record, and the
manifest log may have been switched off for a time.
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
    """A segment that is on disk."""

    segment_id: int
    base_offset: int


class MissingRecord(NamedTuple):
    """A record that the manifest log lacks."""

    payload: Payload
    segment_id: int
    logical_offset: int


def reconcile(
    index: ManifestIndex,
    found: Sequence[SegmentOnDisk],
    *,
    epoch: int,
    footers: Mapping[int, SegmentFooter],
) -> Iterator[MissingRecord]:
    """What must be recorded so that the index agrees with the segments on disk.

    `footers` has those of the sealed segments that the index does not know to be sealed.
    """
    on_disk = {segment.segment_id for segment in found}
    for state in index.segments():
        if state.residency & Residency.TIER0 and state.segment_id not in on_disk:
            end = state.base_offset + state.durable_bytes
            yield MissingRecord(LocalEvicted(state.resident_bytes), state.segment_id, end)
    for segment in found:
        known = index.get(segment.segment_id)
        if known is None or not known.is_opened:
            payload: Payload = SegmentOpened(segment.base_offset, epoch)
            yield MissingRecord(payload, segment.segment_id, segment.base_offset)
        elif not known.residency & Residency.TIER0:
            # It was to go, and is here still: a crash came between.
            end = segment.base_offset + known.durable_bytes
            yield MissingRecord(HydrationDone(known.durable_bytes), segment.segment_id, end)
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
