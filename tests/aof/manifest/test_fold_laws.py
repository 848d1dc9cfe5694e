"""What holds of the fold of any history: it never fails, forgets nothing, and less says as much."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from lakebed.aof.manifest.index import Anomaly, ManifestIndex, fold
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    Position,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
)
from lakebed.aof.manifest.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.aof.manifest.state import Condition, Pending, Residency
from tests.aof.manifest.records_strategies import (
    disordered_histories,
    histories,
    lives,
    odd_histories,
)

pytestmark = pytest.mark.thorough


def owed(index: ManifestIndex) -> list[str]:
    """Every delete that is still to be done."""
    of_entries = [state.key for state in index.segments() if state.pending & Pending.DELETE]
    return [*of_entries, *index.pending_deletes]


@given(disordered_histories)
def test_nothing_that_records_say_makes_the_fold_fail(history: list[ManifestRecord]) -> None:
    index = fold(history)
    assert index.record_count == len(history)
    assert fold(index.minimal_records()) == index


@given(histories, st.data())
def test_replay_from_any_snapshot_equals_replay_from_the_start(
    history: list[ManifestRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    snapshot = Snapshot(1, Position(0, 64), fold(history[:cut]))
    index = decode_snapshot(encode_snapshot(snapshot)).index
    assert index == snapshot.index
    for record in history[cut:]:
        index.apply(record)
    whole = fold(history)
    assert index == whole
    assert index.record_count == whole.record_count
    assert index.last_timestamp_ms == whole.last_timestamp_ms
    assert index.last_marker == whole.last_marker


@given(histories, st.data())
def test_the_state_as_of_a_time_is_the_fold_of_what_came_before(
    history: list[ManifestRecord], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    until_ms = history[cut - 1].timestamp_ms if cut else -1
    while cut < len(history) and history[cut].timestamp_ms == until_ms:
        cut += 1
    assert fold(history, until_ms=until_ms) == fold(history[:cut])


@settings(max_examples=60)
@given(histories)
def test_the_minimal_records_fold_to_the_same_state_in_order_of_time(
    history: list[ManifestRecord],
) -> None:
    index = fold(history)
    minimal = index.minimal_records()
    times = [record.timestamp_ms for record in minimal]
    assert fold(minimal) == index
    assert times == sorted(times)
    assert not fold(minimal).anomalies[Anomaly.TIME_FELL]


OPENED = SegmentOpened(base_offset=4096, epoch=3)
WARM: list[Payload] = [
    OPENED,
    SealSegment(1000, 1, 2, 3, 1),
    CompressionStarted(9),
    CompressionDone(300, 5),
]
COLD: list[Payload] = [*WARM, UploadDone("key", "etag"), LocalEvicted(1000), LocalEvicted(300)]
CODEC, MISSING = CompressionFailed(1), HydrationFailed(4)


@pytest.mark.parametrize(
    "payloads",
    [
        [OPENED, HydrationStarted(0), HydrationDone(0)],  # nothing shows but the time
        [OPENED, HydrationStarted(2), HydrationFailed(0)],
        [OPENED, HydrationFailed(0), HydrationStarted(2)],
        [OPENED, CompressionStarted(3), CODEC, HydrationDone(0)],
        [OPENED, CompressionStarted(3), CODEC, CompressionFailed(0), CompressionStarted(4)],
        [*WARM, UploadDone("key", ""), CompressionStarted(9)],  # made anew
        [*WARM, UploadDone("key", ""), CompressionStarted(9), CompressionFailed(0)],
        [*WARM, CompressionFailed(0)],
        [*WARM, HydrationStarted(1), HydrationDone(1000), LocalEvicted(1000)],
        [*WARM, LocalEvicted(1000), HydrationStarted(1), HydrationDone(900)],
        [OPENED, CompressionStarted(9), CompressionFailed(0)],
        [*COLD[:3], CompressionDone(0, 0), *COLD[4:]],  # only the job's number shows
        [*COLD, HydrationStarted(2)],
        [*COLD, HydrationStarted(2), MISSING],
        [*COLD, HydrationStarted(2), MISSING, HydrationFailed(0), HydrationStarted(2)],
        [*COLD, HydrationStarted(2), HydrationDone(1000)],
        [*COLD, HydrationStarted(2), HydrationDone(1000), LocalEvicted(1000)],
        [*COLD, CompressionStarted(1), CODEC, MISSING, CompressionDone(1, 1), HydrationFailed(0)],
        [CompressionStarted(0), CompressionFailed(0)],
        [HydrationStarted(0), MISSING, HydrationFailed(0)],
        [HydrationStarted(0), HydrationFailed(0), HydrationStarted(2)],
    ],
)
def test_the_minimal_records_are_right_where_little_of_much_shows(payloads: list[Payload]) -> None:
    index = fold(ManifestRecord(payload, 7, 0, time) for time, payload in enumerate(payloads, 10))
    minimal = index.minimal_records()
    assert len(index) == 1
    assert fold(minimal) == index
    assert len(minimal) <= len(payloads)


@given(lives())
def test_the_minimal_records_are_never_more_than_there_were(history: list[ManifestRecord]) -> None:
    assert len(fold(history).minimal_records()) <= len(history)


@given(histories)
def test_looking_at_an_index_does_not_change_what_it_becomes(history: list[ManifestRecord]) -> None:
    watched = ManifestIndex()
    for record in history:
        watched.apply(record)
        watched.get(record.segment_id)
        len(watched)
    assert watched == fold(history)


@given(histories)
def test_entries_are_what_they_must_be(history: list[ManifestRecord]) -> None:
    for state in fold(history).segments():
        is_deleting = bool(state.pending & Pending.DELETE)
        assert not is_deleting or state.residency & Residency.TIER2
        assert bool(state.key or state.etag) <= bool(state.residency & Residency.TIER2)
        assert not state.resident_bytes or state.residency & Residency.TIER0
        assert not state.needs_repair or state.failures
        assert state.is_opened <= bool(state.residency)
        assert max(state.opened_at_ms, state.sealed_at_ms) <= state.changed_at_ms
        assert state.is_sealed or not state.condition & Condition.FLUSH_FAILURE


@given(odd_histories)
def test_a_delete_is_owed_once_from_its_queueing_until_it_is_done(
    history: list[ManifestRecord],
) -> None:
    queued: set[str] = set()
    records = [record for record in history if record.segment_id == 0]  # no key is another's too
    for record in records:
        if isinstance(record.payload, Tier2DeleteQueued):
            queued.add(record.payload.key)
        elif isinstance(record.payload, Tier2Deleted):
            queued.discard(record.payload.key)
    assert sorted(owed(fold(records))) == sorted(queued)
