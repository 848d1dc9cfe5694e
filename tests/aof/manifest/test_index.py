"""The index of a manifest log: deletes that are owed, placeholders, counts, and how to look."""

from __future__ import annotations

import pytest

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
    SnapshotMarker,
)
from lakebed.aof.manifest.index import UNKNOWN_TYPES_MAX, Anomaly, ManifestIndex, fold
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Payload,
    Tier2Deleted,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
    UploadFailed,
    UploadStarted,
)
from lakebed.aof.manifest.state import (
    Pending,
    Reconciliation,
    ReconciliationKind,
    Residency,
)

ID = 7
OPENED = SegmentOpened(base_offset=0, epoch=1)
SEALED = SealSegment(1000, 0xC4C, 41, 42, flush_failure=0)
UPLOADED: list[Payload] = [OPENED, SEALED, UploadDone("key", "etag")]
QUEUED: list[Payload] = [*UPLOADED, Tier2DeleteQueued("key")]


def folded(*payloads: Payload, segment_id: int = ID) -> ManifestIndex:
    return fold(
        ManifestRecord(payload, segment_id, 0, 10 * number)
        for number, payload in enumerate(payloads, 1)
    )


# Deletes.


def test_the_delete_of_an_entrys_object_is_the_entrys() -> None:
    index = folded(*QUEUED)
    state = index.get(ID)
    assert state is not None
    assert (state.pending, index.pending_deletes) == (Pending.DELETE, ())
    index.apply(ManifestRecord(Tier2Deleted("key"), ID, 0, 50))
    state = index.get(ID)
    assert state is not None
    assert (state.pending, state.residency, state.key, state.etag) == (0, Residency.TIER0, "", "")


@pytest.mark.parametrize("segment_id", [ID, MANIFEST_ITSELF])
def test_deletes_of_other_objects_are_kept_in_the_order_of_their_queueing(segment_id: int) -> None:
    queued: list[Payload] = [Tier2DeleteQueued(key) for key in ("b", "c", "a", "b")]
    assert folded(*queued, segment_id=segment_id).pending_deletes == ("b", "c", "a")
    left = folded(*queued, Tier2Deleted("c"), Tier2Deleted("x"), segment_id=segment_id)
    assert left.pending_deletes == ("b", "a")
    assert len(left) == 0


def test_the_delete_of_an_entry_that_goes_is_still_owed() -> None:
    index = folded(*QUEUED, LocalEvicted(1000))
    assert (index.get(ID), index.pending_deletes) == (None, ("key",))
    assert folded(*QUEUED, LocalEvicted(1000), Tier2Deleted("key")) == folded(
        *UPLOADED, LocalEvicted(1000), Tier2Deleted("key")
    )


def test_the_delete_of_an_object_that_was_replaced_is_still_owed() -> None:
    index = folded(*QUEUED, UploadDone("new", "etag"))
    state = index.get(ID)
    assert state is not None
    assert (state.key, state.pending, index.pending_deletes) == ("new", 0, ("key",))
    assert not any(index.anomalies.values())


def test_an_object_uploaded_anew_is_still_to_be_deleted_once() -> None:
    for again in (
        folded(*QUEUED, UploadDone("key", "e2")),
        folded(*QUEUED, LocalEvicted(1000), UploadDone("key", "e2")),
        folded(*QUEUED, UploadDone("new", "e"), UploadDone("key", "e2")),
    ):
        state = again.get(ID)
        assert state is not None
        assert (state.key, state.etag, state.pending) == ("key", "e2", Pending.DELETE)
        assert again.pending_deletes == ()


def test_an_object_that_is_replaced_without_a_delete_is_counted() -> None:
    assert folded(*UPLOADED, UploadDone("new", "")).anomalies[Anomaly.OBJECT_REPLACED] == 1


# Segments that were not opened.


@pytest.mark.parametrize(
    "payload",
    [
        SEALED,
        CompressionStarted(1),
        CompressionDone(1, 0),
        UploadStarted("key"),
        UploadDone("key", ""),
        UploadFailed("key", 0),
        HydrationStarted(2),
        HydrationDone(1),
    ],
)
def test_a_record_that_makes_something_known_makes_a_placeholder(payload: Payload) -> None:
    index = folded(payload)
    state = index.get(ID)
    assert state is not None
    assert not state.is_opened
    assert index.anomalies[Anomaly.NOT_OPENED] == 1
    assert Reconciliation(ID, ReconciliationKind.NOT_OPENED) in list(index.reconciliation())
    completed = folded(payload, OPENED).get(ID)
    assert completed is not None
    assert completed.is_opened
    assert completed.residency & Residency.TIER0


@pytest.mark.parametrize(
    "payload",
    [
        CompressionFailed(1),
        Tier2DeleteQueued("key"),
        Tier2Deleted("key"),
        HydrationFailed(4),
        LocalEvicted(1),
    ],
)
def test_a_record_that_takes_away_makes_no_entry(payload: Payload) -> None:
    assert folded(payload).get(ID) is None


def test_an_upload_that_ends_after_its_segment_is_gone_is_reconciled() -> None:
    index = folded(OPENED, SEALED, UploadStarted("key"), LocalEvicted(1000), UploadDone("key", ""))
    assert list(index.reconciliation()) == [Reconciliation(ID, ReconciliationKind.NOT_OPENED)]
    index.apply(ManifestRecord(Tier2Deleted("key"), ID, 0, 60))
    assert len(index) == 0


def test_reconciliation_names_what_is_unfinished_or_needs_repair() -> None:
    index = folded(
        *QUEUED,
        CompressionStarted(1),
        UploadStarted("again"),
        HydrationFailed(4),
        HydrationStarted(1),
        Tier2DeleteQueued("orphan"),
    )
    assert list(index.reconciliation()) == [
        Reconciliation(ID, ReconciliationKind.NEEDS_REPAIR),
        Reconciliation(ID, ReconciliationKind.COMPRESSION),
        Reconciliation(ID, ReconciliationKind.UPLOAD, "again"),
        Reconciliation(ID, ReconciliationKind.HYDRATION),
        Reconciliation(ID, ReconciliationKind.DELETE, "key"),
        Reconciliation(MANIFEST_ITSELF, ReconciliationKind.ORPHAN_DELETE, "orphan"),
    ]
    assert not list(folded(*UPLOADED).reconciliation())
    assert list(folded(OPENED, HydrationStarted(1)).reconciliation()) == [
        Reconciliation(ID, ReconciliationKind.HYDRATION)
    ]


# Records that change no segment.


def test_book_keeping_of_the_manifest_itself_makes_no_entry() -> None:
    index = folded(UploadStarted("k"), UploadDone("k", "e"), SEALED, segment_id=MANIFEST_ITSELF)
    assert (len(index), index.record_count, index.coordinator_watermark) == (0, 3, 42)


def test_the_last_marker_is_remembered() -> None:
    index = folded(SnapshotMarker(1, 64, 1), SnapshotMarker(2, 512, 2), segment_id=MANIFEST_ITSELF)
    assert index.last_marker == SnapshotMarker(2, 512, 2)


def test_what_is_not_known_is_counted_within_bounds() -> None:
    numbers = range(16, 16 + UNKNOWN_TYPES_MAX + 10)
    unknown = [Unknown(number, b"?") for number in numbers] * 2
    index = folded(CustomEvent(1, b"x"), *unknown)
    assert (index.custom_count, index.unknown_count) == (1, 2 * len(numbers))
    assert index.unknown_types == dict.fromkeys(numbers[:UNKNOWN_TYPES_MAX], 2)
    assert len(index) == 0


def test_flags_are_counted_and_the_record_is_used() -> None:
    index = fold([ManifestRecord(OPENED, ID, 0, 10, flags=2)])
    assert (index.flagged_count, len(index)) == (1, 1)


def test_time_stands_still_for_a_record_that_is_older() -> None:
    index = fold([ManifestRecord(OPENED, ID, 0, 10), ManifestRecord(SEALED, ID, 0, 5)])
    state = index.get(ID)
    assert state is not None
    assert (state.sealed_at_ms, index.last_timestamp_ms) == (10, 10)
    assert index.anomalies[Anomaly.TIME_FELL] == 1


def test_the_watermark_is_the_highest_seen_even_of_segments_that_are_gone() -> None:
    index = folded(OPENED, SEALED, LocalEvicted(1000))
    assert (len(index), index.coordinator_watermark) == (0, 42)
    assert fold(index.minimal_records()).coordinator_watermark == 42


# Looking.


def test_segments_come_by_id_and_can_be_chosen_by_tier_or_by_pending_work() -> None:
    index = ManifestIndex()
    for segment_id in (5, 2**40, 1, 3):
        index.apply(ManifestRecord(OPENED, segment_id, 0, 1))
    index.apply(ManifestRecord(UploadDone("k", ""), 3, 0, 2))
    index.apply(ManifestRecord(UploadStarted("k"), 1, 0, 3))
    both = Residency.TIER0 | Residency.TIER2
    assert [state.segment_id for state in index.segments()] == [1, 3, 5, 2**40]
    assert [state.segment_id for state in index.iter_residency(both)] == [3]
    assert [state.segment_id for state in index.iter_residency(Residency.TIER1)] == []
    assert [state.segment_id for state in index.pending()] == [1]
    assert len(index) == 4


def test_indexes_differ_by_a_segment_the_order_of_deletes_or_the_watermark() -> None:
    first, second = Tier2DeleteQueued("a"), Tier2DeleteQueued("b")
    assert folded(OPENED, first, second) == folded(OPENED, first, second, CustomEvent(1, b""))
    assert folded(OPENED, first, second) != folded(OPENED, second, first)
    assert folded(OPENED) != folded(OPENED._replace(epoch=2))
    assert folded(OPENED, SEALED, LocalEvicted(1)) != folded(OPENED, LocalEvicted(1))


def test_a_copy_and_a_state_do_not_change_with_the_index() -> None:
    index = folded(OPENED, Unknown(99, b"?"))
    copy, state = index.copy(), index.get(ID)
    assert copy == index
    for payload in (SEALED, Unknown(99, b"?"), Tier2DeleteQueued("k")):
        index.apply(ManifestRecord(payload, ID, 0, 1))
    assert copy != index
    assert copy.get(ID) == state
    assert (copy.record_count, copy.unknown_types, copy.pending_deletes) == (2, {99: 1}, ())
    assert not any(copy.anomalies.values())
    assert index != "an index"
