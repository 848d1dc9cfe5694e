"""Computes the fewest records that give the same state as all records of a manifest log.

A replay of these records gives an equal state, including the times when a segment was opened,
sealed and last changed. Only what is not part of any state is lost: values that later records
replaced, custom events, flags, logical offsets, and the exact non-zero value of a `flush_failure`.

A segment takes one record for its opening, one for its sealing, and one for each later change that
still affects its state. Deletes of objects that belong to no segment, and a watermark that is
higher than every segment's, are recorded last, as records about the manifest log itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

from lakebed.aof.manifest.format import (
    MANIFEST_ITSELF,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
    SealSegment,
    SegmentOpened,
)
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import SegmentState
from lakebed.aof.manifest.transitions import (
    CODEC,
    COMPRESSING,
    COMPRESSION_FAILED,
    DELETING,
    FLUSH_FAILURE,
    HYDRATING,
    HYDRATION_FAILED,
    MISSING,
    TIER0,
    TIER1,
    TIER2,
    UPLOAD_FAILED,
    UPLOADING,
)


def minimal_records(
    states: Iterable[SegmentState],
    pending_deletes: Iterable[str],
    *,
    coordinator_watermark: int,
    last_timestamp_ms: int,
) -> list[ManifestRecord]:
    """Returns the fewest records, in time order, whose replay gives the state in the arguments."""
    records: list[ManifestRecord] = []
    highest = 0
    for state in states:
        records += _of_segment(state)
        highest = max(highest, state.coordinator_watermark)
    records.sort(key=attrgetter("timestamp_ms"))
    manifest_payloads: list[Payload] = [Tier2DeleteQueued(key) for key in pending_deletes]
    if coordinator_watermark > highest:
        manifest_payloads.append(SealSegment(0, 0, 0, coordinator_watermark, 0))
    records += [
        ManifestRecord(payload, MANIFEST_ITSELF, 0, last_timestamp_ms)
        for payload in manifest_payloads
    ]
    return records


def _of_segment(state: SegmentState) -> Iterator[ManifestRecord]:
    """Yields the records of one segment.

    The opening and the sealing have their own times; all others have that of the last change.
    """
    timed: list[tuple[Payload, int]] = []
    if state.is_opened:
        timed.append((SegmentOpened(state.base_offset, state.epoch), state.opened_at_ms))
    if state.is_sealed:
        timed.append((_seal(state), state.sealed_at_ms))
    later = [*_residency(state), *_work(state)]
    if not timed:
        later = [*_creation(later), *later]
    elif not later and max(time_ms for _, time_ms in timed) < state.changed_at_ms:
        later = [HydrationDone(state.resident_bytes)]  # changes only the time
    timed += [(payload, state.changed_at_ms) for payload in later]
    for payload, time_ms in timed:
        yield ManifestRecord(payload, state.segment_id, state.base_offset, time_ms)


def _seal(state: SegmentState) -> SealSegment:
    return SealSegment(
        state.durable_bytes,
        state.segment_crc64,
        state.ext_id,
        state.coordinator_watermark,
        int(bool(state.condition & FLUSH_FAILURE)),
    )


def _residency(state: SegmentState) -> Iterator[Payload]:
    """Yields the records after which the segment is in exactly its current tiers."""
    was_compressed = _has_warm_facts(state)
    if state.job_id and not state.pending & COMPRESSING and not _is_made_anew(state):
        yield CompressionStarted(state.job_id)
        was_compressed |= not state.failures & COMPRESSION_FAILED
    if was_compressed:
        yield CompressionDone(state.compressed_bytes, state.dictionary_id)
    if state.residency & TIER2:
        yield UploadDone(state.key, state.etag)
    left_tier1 = was_compressed and not state.residency & TIER1 and not _is_made_anew(state)
    is_open_ended = state.pending & HYDRATING or state.failures & HYDRATION_FAILED
    hydrated_from = 0 if is_open_ended else state.hydration_source
    is_here = state.is_opened
    if hydrated_from and not state.residency & TIER0:
        yield from (HydrationStarted(hydrated_from), HydrationDone(0))
        hydrated_from, is_here = 0, True
    if is_here and (left_tier1 or not state.residency & TIER0):
        yield LocalEvicted(0)
        is_here = False
    if left_tier1:
        yield LocalEvicted(0)
    if hydrated_from:
        yield HydrationStarted(hydrated_from)
    is_as_sealed = is_here and not hydrated_from and state.resident_bytes == state.durable_bytes
    if state.residency & TIER0 and not is_as_sealed:
        yield HydrationDone(state.resident_bytes)


def _has_warm_facts(state: SegmentState) -> bool:
    return bool(state.residency & TIER1 or state.compressed_bytes or state.dictionary_id)


def _is_made_anew(state: SegmentState) -> bool:
    """Returns whether a warm file is being created from Tier 0, or could not be created.

    That is, the segment is in Tier 0 and not in Tier 1, and its compression is running or failed.
    If there was a warm file before, it no longer counts.
    """
    is_only_hot = state.residency & (TIER0 | TIER1) == TIER0
    return is_only_hot and bool(state.pending & COMPRESSING or state.failures & COMPRESSION_FAILED)


def _work(state: SegmentState) -> Iterator[Payload]:
    """Yields the records about failed and unfinished work on the segment."""
    failures, pending = state.failures, state.pending
    is_codec = failures & COMPRESSION_FAILED and state.compression_reason == CODEC
    is_missing = failures & HYDRATION_FAILED and state.hydration_reason == MISSING
    if (
        _is_made_anew(state)
        and not pending & COMPRESSING
        and (state.job_id or _has_warm_facts(state))
    ):
        yield CompressionStarted(state.job_id)
    if (
        state.needs_repair and not is_codec and not is_missing
    ):  # a later failure replaced the reason
        is_hidden_by_hydration = failures & HYDRATION_FAILED
        yield HydrationFailed(MISSING) if is_hidden_by_hydration else CompressionFailed(CODEC)
    if failures & COMPRESSION_FAILED:
        yield CompressionFailed(state.compression_reason)
    if pending & COMPRESSING:
        yield CompressionStarted(state.job_id)
    if failures & UPLOAD_FAILED:
        yield UploadFailed(state.upload_key, state.upload_reason)
    if pending & UPLOADING:
        yield UploadStarted(state.upload_key)
    if failures & HYDRATION_FAILED:
        if state.hydration_source and not pending & HYDRATING:
            yield HydrationStarted(state.hydration_source)
        yield HydrationFailed(state.hydration_reason)
    if pending & HYDRATING:
        yield HydrationStarted(state.hydration_source)
    if pending & DELETING:
        yield Tier2DeleteQueued(state.key)


def _creation(payloads: list[Payload]) -> Iterator[Payload]:
    """Yields a start record if the first of `payloads` is a failed compression or hydration.

    Such a record alone does not create the segment's entry, but a start record does.
    """
    match payloads:
        case [CompressionFailed(), *_]:
            yield CompressionStarted(0)
        case [HydrationFailed(), *_]:
            yield HydrationStarted(0)
