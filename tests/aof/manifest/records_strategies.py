"""Hypothesis strategies: payloads of every type, records, and histories of a few segments.

Three kinds of histories, all with times that never fall: `lives`, in which every segment goes
through its tiers in order; `odd_histories`, in which anything follows anything, over so few
segments, keys and numbers that the records meet; and `histories`, which are either.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

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

u8 = st.integers(0, 2**8 - 1)
u16 = st.integers(0, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)


def decoded(data: bytes) -> str:
    """As a key comes out of a record; not all of them are UTF-8."""
    return data.decode("utf-8", "surrogateescape")


texts = st.binary(max_size=40).map(decoded)

PAYLOADS: dict[type, st.SearchStrategy[Payload]] = {
    SegmentOpened: st.builds(SegmentOpened, u64, u32),
    SealSegment: st.builds(SealSegment, u64, u64, u64, u64, u8),
    CompressionStarted: st.builds(CompressionStarted, u32),
    CompressionDone: st.builds(CompressionDone, u64, u32),
    CompressionFailed: st.builds(CompressionFailed, u32),
    UploadStarted: st.builds(UploadStarted, texts),
    UploadDone: st.builds(UploadDone, texts, texts),
    UploadFailed: st.builds(UploadFailed, texts, u32),
    Tier2DeleteQueued: st.builds(Tier2DeleteQueued, texts),
    Tier2Deleted: st.builds(Tier2Deleted, texts),
    HydrationStarted: st.builds(HydrationStarted, u64),
    HydrationDone: st.builds(HydrationDone, u64),
    HydrationFailed: st.builds(HydrationFailed, u32),
    LocalEvicted: st.builds(LocalEvicted, u64),
    SnapshotMarker: st.builds(SnapshotMarker, u64, u64, u64),
    CustomEvent: st.builds(CustomEvent, u32, st.binary(max_size=40)),
    Unknown: st.builds(Unknown, st.integers(16, 2**16 - 1), st.binary(min_size=1, max_size=40)),
}

payloads: st.SearchStrategy[Payload] = st.one_of(*PAYLOADS.values())
records = st.builds(ManifestRecord, payloads, u64, u64, u64, u16)

# Few values of each, and among them those that mean something.
_key = st.sampled_from(["k0", "k1", "k2", "\udcff", ""])
_reason = st.integers(0, 4)
_few = st.integers(0, 2)
_odd_payload: st.SearchStrategy[Payload] = st.one_of(
    st.builds(SegmentOpened, _few, _few),
    st.builds(SealSegment, _few, u64, u64, _few, st.integers(0, 1)),
    st.builds(CompressionStarted, _few),
    st.builds(CompressionDone, _few, _few),
    st.builds(CompressionFailed, _reason),
    st.builds(UploadStarted, _key),
    st.builds(UploadDone, _key, st.sampled_from(["", "etag"])),
    st.builds(UploadFailed, _key, _reason),
    st.builds(Tier2DeleteQueued, _key),
    st.builds(Tier2Deleted, _key),
    st.builds(HydrationStarted, st.sampled_from([0, 1, 2, 2**64 - 1])),
    st.builds(HydrationDone, _few),
    st.builds(HydrationFailed, _reason),
    st.builds(LocalEvicted, _few),
    PAYLOADS[SnapshotMarker],
    PAYLOADS[CustomEvent],
    PAYLOADS[Unknown],
)
_odd_segment = st.sampled_from([0, 0, 0, 1, 2**32, MANIFEST_ITSELF])


@st.composite
def _timed(
    draw: st.DrawFn, events: Sequence[tuple[Payload, int]], steps_ms: st.SearchStrategy[int]
) -> list[ManifestRecord]:
    time_ms = draw(st.integers(0, 1_000_000))
    history = []
    for payload, segment_id in events:
        time_ms += draw(steps_ms)
        history.append(ManifestRecord(payload, segment_id, 0, time_ms))
    return history


odd_histories: st.SearchStrategy[list[ManifestRecord]] = st.lists(
    st.tuples(_odd_payload, _odd_segment), max_size=40
).flatmap(lambda events: _timed(events, st.integers(0, 2)))

disordered_histories: st.SearchStrategy[list[ManifestRecord]] = st.lists(records, max_size=30)


@st.composite
def _life(draw: st.DrawFn, segment_id: int) -> list[Payload]:
    """What happens to one segment, cut off somewhere."""
    key = f"aof2/s/segment-{segment_id:020}.zst"
    maybe = st.booleans()
    life: list[Payload] = [
        SegmentOpened(segment_id * 4192, 1),
        SealSegment(4096, draw(u64), segment_id, segment_id, draw(st.integers(0, 1))),
    ]
    if draw(maybe):
        life += [CompressionStarted(7), CompressionFailed(draw(st.integers(0, 1)))]
    life += [CompressionStarted(8), CompressionDone(1000, draw(_few)), UploadStarted(key)]
    if draw(maybe):
        life += [UploadFailed(key, draw(st.integers(0, 3))), UploadStarted(key)]
    life += [UploadDone(key, "etag"), LocalEvicted(4096)]
    if draw(maybe):
        life.append(LocalEvicted(1000))  # the warm file
    if draw(maybe):
        life += [HydrationStarted(2), HydrationFailed(draw(st.sampled_from([0, 4])))]
    life += [HydrationStarted(2), HydrationDone(4096), Tier2DeleteQueued(key), LocalEvicted(4096)]
    life += [LocalEvicted(1000), Tier2Deleted(key)]
    return life[: draw(st.integers(1, len(life)))]


@st.composite
def lives(draw: st.DrawFn) -> list[ManifestRecord]:
    """A few segments, each in its order, their records mixed."""
    left = {number: draw(_life(number)) for number in range(draw(st.integers(1, 4)))}
    events: list[tuple[Payload, int]] = []
    while left:
        number = draw(st.sampled_from(sorted(left)))
        events.append((left[number].pop(0), number))
        if not left[number]:
            del left[number]
    return draw(_timed(events, st.integers(0, 1000)))


histories = st.one_of(lives(), odd_histories)
