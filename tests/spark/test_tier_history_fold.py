"""What happened to one segment, as spans: hand-made histories, and those of the engine."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import ManifestRecord, Payload
from lakebed.spark.jobs.tier_history_fold import (
    CHANGE,
    DAMAGE,
    HYDRATION,
    RECORDS,
    STATE,
    STAY,
    TORN,
    UPLOAD,
    Span,
    spans_of,
)
from tests.cli.manifest_stores import KEY, OTHER_RECORDS


def row(kind: str, at_ms: int, **values: object) -> dict[str, Any]:
    names = ("durable_bytes", "resident_bytes", "compressed_bytes", "key", "residency", "pending")
    known = {"type": kind, "at_ms": at_ms, "segment_id": 7, "problem": None}
    return known | dict.fromkeys(names) | values


def opened(at_ms: int) -> dict[str, Any]:
    return row("SegmentOpened", at_ms, base_offset=0, epoch=1)


def sealed(at_ms: int, size: int) -> dict[str, Any]:
    return row("SealSegment", at_ms, durable_bytes=size, segment_crc64=1, ext_id=0,
               coordinator_watermark=0, flush_failure=0)  # fmt: skip


def of_kind(kind: str, rows: list[dict[str, Any]]) -> list[Span]:
    return [span for span in spans_of(rows) if span.kind == kind]


LIFE = [
    opened(1000),
    sealed(2000, 100),
    row("CompressionStarted", 2100, job_id=1),
    row("CompressionDone", 2500, compressed_bytes=40, dictionary_id=0),
    row("UploadStarted", 2600, key=KEY),
    row("UploadFailed", 2700, key=KEY, reason_code=3),
    row("UploadStarted", 2900, key=KEY),
    row("UploadDone", 3000, key=KEY, etag="e"),
    row("LocalEvicted", 4000, reclaimed_bytes=100),
    row("LocalEvicted", 5000, reclaimed_bytes=40),
    row("HydrationStarted", 9000, source_tier=2),
    row("HydrationDone", 9030, resident_bytes=100),
]


def test_a_stay_is_from_the_record_that_brings_to_the_one_that_takes_away() -> None:
    assert of_kind(STAY, LIFE) == [
        Span(STAY, 0, 1000, 4000),
        Span(STAY, 1, 2500, 5000),
        Span(STAY, 2, 3000),
        Span(STAY, 0, 9030),
    ]


def test_an_upload_counts_its_tries_and_its_failures() -> None:
    assert of_kind(UPLOAD, LIFE) == [
        Span(UPLOAD, 2, 2600, 3000, outcome="done", tries=2, failures=1)
    ]
    [unfinished] = of_kind(UPLOAD, LIFE[:7])
    assert (unfinished.outcome, unfinished.tries, unfinished.ended_ms) == ("unfinished", 2, None)


def test_a_hydration_has_a_latency_or_failed_or_was_cut_off() -> None:
    assert of_kind(HYDRATION, LIFE) == [Span(HYDRATION, 2, 9000, 9030, outcome="done")]
    failed = [*LIFE[:11], row("HydrationFailed", 9100, reason_code=4)]
    again = [*failed, row("HydrationStarted", 9200, source_tier=1)]
    crashed = [*again, row("HydrationStarted", 9300, source_tier=2), LIFE[11] | {"at_ms": 9400}]
    assert [(one.tier, one.started_ms, one.outcome) for one in of_kind(HYDRATION, crashed)] == [
        (2, 9000, "failed"),
        (1, 9200, "unfinished"),
        (2, 9300, "done"),
    ]


def test_the_bytes_of_a_tier_change_with_what_it_has() -> None:
    assert [(one.tier, one.started_ms, one.size_bytes) for one in of_kind(CHANGE, LIFE)] == [
        (0, 2000, 100),
        (1, 2500, 40),
        (2, 3000, 40),
        (0, 4000, -100),
        (1, 5000, -40),
        (0, 9030, 100),
    ]


def test_what_is_known_before_the_history_is_where_it_begins() -> None:
    before = row(STATE, 500, residency=6, pending=0, durable_bytes=100, compressed_bytes=40,
                 key=KEY)  # fmt: skip
    rows = [before, row("LocalEvicted", 800, reclaimed_bytes=40)]
    assert of_kind(STAY, rows) == [
        Span(STAY, 1, 500, 800, is_cut=True),
        Span(STAY, 2, 500, is_cut=True),
    ]
    sizes = [(one.tier, one.started_ms, one.size_bytes) for one in of_kind(CHANGE, rows)]
    assert sizes == [(1, 500, 40), (2, 500, 40), (1, 800, -40)]


def test_time_that_falls_stands_still_and_unknown_types_say_nothing() -> None:
    rows = [opened(1000), row("Unknown(99)", 1), row("LocalEvicted", 10, reclaimed_bytes=0)]
    assert of_kind(STAY, rows) == [Span(STAY, 0, 1000, 1000)]


def test_records_are_counted_and_damage_is_told_in_their_place() -> None:
    damage = row("", 0) | {"problem": "corrupt: x", "log": "orders", "chunk_index": 3}
    torn = damage | {"problem": "torn: y"}
    found = spans_of([row(STATE, 500, residency=1), damage, torn, *LIFE])
    assert [one for one in found if one.kind in (RECORDS, DAMAGE, TORN)] == [
        Span(DAMAGE, 0, 0, outcome="orders: chunk 3: corrupt: x"),
        Span(TORN, 0, 0, outcome="orders: chunk 3: torn: y"),
        Span(RECORDS, 0, 0, tries=len(LIFE)),
    ]


@given(st.lists(st.sampled_from(OTHER_RECORDS), max_size=30))
def test_in_the_end_segments_are_where_the_engine_has_them(payloads: list[Payload]) -> None:
    index = ManifestIndex()
    rows = []
    for number, payload in enumerate(payloads):
        index.apply(ManifestRecord(payload, 7, 0, number))
        rows.append(row(type(payload).__name__, number, **payload._asdict()))
    state = index.get(7)
    spans = list(spans_of(rows))
    residency = 0 if state is None else state.residency
    going_on = {one.tier for one in spans if one.kind == STAY and one.ended_ms is None}
    assert going_on == {tier for tier in range(3) if residency >> tier & 1}
    for tier in range(3):
        size = sum(one.size_bytes or 0 for one in spans if (one.kind, one.tier) == (CHANGE, tier))
        expected = 0
        if state is not None and tier in going_on:
            expected = state.compressed_bytes if tier else state.resident_bytes
        assert size == expected
