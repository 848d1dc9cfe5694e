"""What each type of record does to the entry of its segment, rule by rule."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lakebed.aof.manifest.format import (
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
from lakebed.aof.manifest.index import ManifestIndex, fold
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    ReasonCode,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import (
    Condition,
    Draft,
    Failures,
    Pending,
    Residency,
    SegmentState,
    frozen,
)

ID = 7
OPENED = SegmentOpened(base_offset=4096, epoch=3)
SEALED = SealSegment(1000, 0xC4C, 41, 42, flush_failure=0)
COMPRESSED: list[Payload] = [CompressionStarted(9), CompressionDone(300, 5)]
UPLOADED: list[Payload] = [UploadStarted("key"), UploadDone("key", "etag")]
COLD: list[Payload] = [
    OPENED,
    SEALED,
    *COMPRESSED,
    *UPLOADED,
    LocalEvicted(1000),
    LocalEvicted(300),
]
TIER0, TIER1, TIER2 = Residency


def folded(*payloads: Payload) -> ManifestIndex:
    """The records about one segment: at 10 ms, at 20 ms and so on."""
    return fold(
        ManifestRecord(payload, ID, 0, 10 * number) for number, payload in enumerate(payloads, 1)
    )


def state_after(*payloads: Payload) -> SegmentState:
    state = folded(*payloads).get(ID)
    assert state is not None
    return state


def flags(state: SegmentState) -> tuple[Residency, Pending, Condition, Failures]:
    return (
        Residency(state.residency),
        Pending(state.pending),
        Condition(state.condition),
        Failures(state.failures),
    )


NOTHING_PENDING, NO_FAILURE = Pending(0), Failures(0)
SOUND = Condition.OPENED | Condition.SEALED


def test_a_draft_has_the_fields_of_a_state() -> None:
    assert tuple(field.name for field in fields(Draft)) == SegmentState._fields
    assert not any(frozen(Draft(0)))


def test_an_opened_segment_is_in_tier_0() -> None:
    state = state_after(OPENED)
    assert flags(state) == (TIER0, NOTHING_PENDING, Condition.OPENED, NO_FAILURE)
    assert (state.segment_id, state.base_offset, state.epoch) == (ID, 4096, 3)
    assert (state.opened_at_ms, state.sealed_at_ms, state.changed_at_ms) == (10, 0, 10)
    assert (state.resident_bytes, state.is_opened, state.is_sealed) == (0, True, False)


def test_a_sealed_segment_has_what_its_footer_has() -> None:
    state = state_after(OPENED, SEALED)
    assert flags(state) == (TIER0, NOTHING_PENDING, SOUND, NO_FAILURE)
    assert (state.durable_bytes, state.segment_crc64) == (1000, 0xC4C)
    assert (state.ext_id, state.coordinator_watermark) == (41, 42)
    assert (state.opened_at_ms, state.sealed_at_ms, state.changed_at_ms) == (10, 20, 20)
    assert state.resident_bytes == 1000


def test_a_seal_tells_of_a_flush_that_failed_and_the_last_seal_counts() -> None:
    failed = SEALED._replace(flush_failure=1)
    assert Condition(state_after(OPENED, failed).condition) == SOUND | Condition.FLUSH_FAILURE
    assert Condition(state_after(OPENED, failed, SEALED).condition) == SOUND


@pytest.mark.parametrize(
    "payload",
    [
        OPENED,
        SEALED,
        CompressionStarted(1),
        CompressionDone(1, 0),
        CompressionFailed(0),
        UploadStarted("key"),
        UploadDone("key", ""),
        UploadFailed("key", 0),
        Tier2DeleteQueued("key"),
        Tier2Deleted("key"),
        HydrationStarted(1),
        HydrationDone(1),
        HydrationFailed(0),
        LocalEvicted(1),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_every_record_about_an_entry_is_its_last_change(payload: Payload) -> None:
    before = [OPENED, SEALED, *COMPRESSED, *UPLOADED]
    assert state_after(*before, payload).changed_at_ms == 10 * (len(before) + 1)


def test_opening_and_sealing_may_be_recorded_in_either_order() -> None:
    early, late = state_after(OPENED, SEALED), state_after(SEALED, OPENED)
    assert late == early._replace(opened_at_ms=20, sealed_at_ms=10)


def test_a_compression_is_pending_until_it_is_done() -> None:
    begun = state_after(OPENED, SEALED, CompressionStarted(9))
    assert flags(begun) == (TIER0, Pending.COMPRESSION, SOUND, NO_FAILURE)
    assert (begun.job_id, begun.compressed_bytes) == (9, 0)
    done = state_after(OPENED, SEALED, *COMPRESSED)
    assert flags(done) == (TIER0 | TIER1, NOTHING_PENDING, SOUND, NO_FAILURE)
    assert (done.job_id, done.compressed_bytes, done.dictionary_id) == (9, 300, 5)


def test_a_compression_that_failed_may_be_tried_again() -> None:
    failed: list[Payload] = [
        OPENED,
        SEALED,
        CompressionStarted(9),
        CompressionFailed(ReasonCode.TRANSIENT),
    ]
    assert flags(state_after(*failed)) == (TIER0, NOTHING_PENDING, SOUND, Failures.COMPRESSION)
    again = state_after(*failed, CompressionStarted(10))
    assert (again.pending, again.failures) == (Pending.COMPRESSION, Failures.COMPRESSION)
    done = state_after(*failed, CompressionStarted(10), CompressionDone(300, 0))
    assert (done.pending, done.failures, done.compression_reason) == (0, 0, 0)


def test_a_warm_file_that_is_made_anew_does_not_count_until_it_is_done() -> None:
    warm: list[Payload] = [OPENED, SEALED, *COMPRESSED]
    begun = state_after(*warm, CompressionStarted(10))
    assert (begun.residency, begun.compressed_bytes, begun.job_id) == (TIER0, 0, 10)
    assert state_after(*warm, CompressionStarted(10), CompressionFailed(0)).residency == TIER0
    uploaded = state_after(*warm, *UPLOADED, CompressionStarted(10))
    assert (uploaded.residency, uploaded.compressed_bytes) == (TIER0 | TIER2, 300)
    alone = state_after(*warm, LocalEvicted(1000), CompressionStarted(10))
    assert alone.residency == TIER1  # there is no other file to make it from
    for payload in (OPENED, HydrationDone(1000)):
        again = state_after(*warm, LocalEvicted(1000), CompressionStarted(10), payload)
        assert again.residency == TIER0


def test_a_segment_that_cannot_be_compressed_needs_repair() -> None:
    damaged: list[Payload] = [
        OPENED,
        SEALED,
        CompressionStarted(9),
        CompressionFailed(ReasonCode.CODEC),
    ]
    state = state_after(*damaged)
    assert (state.needs_repair, state.compression_reason) == (True, ReasonCode.CODEC)
    assert state_after(*damaged, CompressionFailed(ReasonCode.TRANSIENT)).needs_repair
    assert not state_after(*damaged, CompressionDone(300, 0)).needs_repair
    replaced = state_after(*damaged, HydrationDone(1000))
    assert (replaced.needs_repair, replaced.failures, replaced.compression_reason) == (False, 0, 0)
    assert replaced.job_id == 0
    assert state_after(*damaged, CompressionStarted(10), HydrationDone(1000)).job_id == 10


def test_an_upload_is_pending_under_its_key_until_it_is_done() -> None:
    begun = state_after(OPENED, SEALED, UploadStarted("key"))
    assert flags(begun) == (TIER0, Pending.UPLOAD, SOUND, NO_FAILURE)
    assert (begun.upload_key, begun.key) == ("key", "")
    done = state_after(OPENED, SEALED, *UPLOADED)
    assert flags(done) == (TIER0 | TIER2, NOTHING_PENDING, SOUND, NO_FAILURE)
    assert (done.upload_key, done.key, done.etag) == ("", "key", "etag")
    assert done.owns_object("key")
    assert not done.owns_object("other")


def test_an_upload_that_failed_keeps_its_key_for_the_next_try() -> None:
    failed: list[Payload] = [
        OPENED,
        SEALED,
        UploadStarted("key"),
        UploadFailed("key", ReasonCode.UNAVAILABLE),
    ]
    state = state_after(*failed)
    assert flags(state) == (TIER0, NOTHING_PENDING, SOUND, Failures.UPLOAD)
    assert (state.upload_key, state.upload_reason) == ("key", ReasonCode.UNAVAILABLE)
    done = state_after(*failed, *UPLOADED)
    assert (done.failures, done.upload_reason, done.upload_key) == (0, 0, "")


def test_a_hydration_is_pending_until_the_segment_is_in_tier_0() -> None:
    begun = state_after(*COLD, HydrationStarted(2))
    assert flags(begun) == (TIER2, Pending.HYDRATION, SOUND, NO_FAILURE)
    assert (begun.hydration_source, begun.resident_bytes) == (2, 0)
    done = state_after(*COLD, HydrationStarted(2), HydrationDone(1000))
    assert flags(done) == (TIER0 | TIER2, NOTHING_PENDING, SOUND, NO_FAILURE)
    assert (done.hydration_source, done.resident_bytes) == (2, 1000)


@pytest.mark.parametrize("reason", list(ReasonCode))
def test_only_a_missing_object_needs_repair_until_a_hydration_is_done(reason: ReasonCode) -> None:
    failed: list[Payload] = [*COLD, HydrationStarted(2), HydrationFailed(reason)]
    state = state_after(*failed)
    assert (state.pending, state.failures) == (0, Failures.HYDRATION)
    assert state.hydration_reason == reason
    assert state.needs_repair == (reason == ReasonCode.MISSING)
    again = state_after(*failed, HydrationFailed(ReasonCode.TRANSIENT), CompressionDone(300, 5))
    assert again.needs_repair == state.needs_repair
    done = state_after(*failed, HydrationDone(1000))
    assert (done.needs_repair, done.failures, done.hydration_reason) == (False, 0, 0)


def test_a_missing_object_is_repaired_by_its_upload() -> None:
    missing: list[Payload] = [*COLD, HydrationFailed(ReasonCode.MISSING)]
    repaired = state_after(*missing, UploadDone("key", "e2"))
    assert (repaired.needs_repair, repaired.failures, repaired.hydration_reason) == (False, 0, 0)
    damaged = state_after(*missing, CompressionFailed(ReasonCode.CODEC), UploadDone("key", "e2"))
    assert (damaged.needs_repair, damaged.failures) == (True, Failures.COMPRESSION)
    failed = state_after(*COLD, HydrationFailed(ReasonCode.TRANSIENT), UploadDone("key", "e2"))
    assert failed.failures == Failures.HYDRATION


def test_an_absurd_source_of_a_hydration_fits_an_entry() -> None:
    assert state_after(OPENED, HydrationStarted(2**64 - 1)).hydration_source == 2**32 - 1


def test_an_eviction_takes_the_hottest_local_tier() -> None:
    warm: list[Payload] = [OPENED, SEALED, *COMPRESSED, *UPLOADED]
    evicted = state_after(*warm, LocalEvicted(1000))
    assert Residency(evicted.residency) == TIER1 | TIER2
    assert (evicted.resident_bytes, evicted.durable_bytes) == (0, 1000)
    cold = state_after(*warm, LocalEvicted(1000), LocalEvicted(300))
    assert Residency(cold.residency) == TIER2
    assert (cold.compressed_bytes, cold.dictionary_id) == (300, 5)  # of the object, now


def test_nothing_is_known_of_a_warm_file_when_it_and_its_object_are_gone() -> None:
    kept = state_after(OPENED, SEALED, *COMPRESSED, *UPLOADED, Tier2Deleted("key"))
    assert (kept.compressed_bytes, kept.dictionary_id, kept.job_id) == (300, 5, 9)
    state = state_after(*COLD, HydrationDone(1000), Tier2Deleted("key"))
    assert Residency(state.residency) == TIER0
    assert (state.compressed_bytes, state.dictionary_id, state.job_id) == (0, 0, 0)


@pytest.mark.parametrize(
    "payloads",
    [
        [OPENED, LocalEvicted(0)],
        [OPENED, SEALED, LocalEvicted(1000)],
        [OPENED, SEALED, *COMPRESSED, LocalEvicted(1000), LocalEvicted(300)],
        [*COLD, Tier2Deleted("key")],
        [*COLD, Tier2DeleteQueued("key"), Tier2Deleted("key")],
        [OPENED, SEALED, *UPLOADED, Tier2DeleteQueued("key"), LocalEvicted(1000)],
        [OPENED, CompressionStarted(9), UploadStarted("key"), LocalEvicted(0)],
        [UploadStarted("key"), LocalEvicted(0)],
        [UploadDone("key", "etag"), Tier2Deleted("key")],
    ],
)
def test_an_entry_goes_with_the_last_tier_that_holds_it(payloads: list[Payload]) -> None:
    assert folded(*payloads[:-1]).get(ID) is not None
    assert folded(*payloads).get(ID) is None


def test_an_object_whose_delete_is_queued_does_not_hold_its_segment() -> None:
    assert state_after(*COLD).is_held
    assert not state_after(*COLD, Tier2DeleteQueued("key")).is_held
    assert state_after(*COLD, HydrationDone(1), Tier2DeleteQueued("key")).is_held


def test_a_delete_of_another_object_changes_nothing() -> None:
    before = state_after(*COLD)
    assert state_after(*COLD, Tier2DeleteQueued("other"), Tier2Deleted("other")) == before
