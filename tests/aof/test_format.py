"""The layouts of AOF2 files: where each field stands, and what follows from sizes."""

from __future__ import annotations

import pytest

from lakebed.aof.format import (
    DURABLE_END,
    FOOTER_BYTES,
    RECORDS_START,
    SEALED_POINTER,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
    next_base_offset,
    record_bytes,
    records_end_max,
)
from lakebed.aof.interchange import INTERCHANGE_FOOTER, INTERCHANGE_HEADER, INTERCHANGE_RECORD
from lakebed.base.layout import Layout

OFFSETS = {
    "SegmentHeader": [0, 4, 6, 8, 12, 20, 28, 32, 40, 48],
    "SegmentFooter": [0, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88],
    "SealedPointer": [0, 4, 6, 8, 16, 24, 32],
    "DurableEnd": [0, 4, 6, 8, 24, 32, 40, 48, 56],
    "InterchangeHeader": [0, 8, 16, 24, 32, 40],
    "InterchangeRecordHeader": [0, 4, 8, 16, 24],
    "InterchangeFooter": [0, 8, 16, 24, 32],
}


@pytest.mark.parametrize(
    "layout",
    [SEGMENT_HEADER, SEGMENT_FOOTER, SEALED_POINTER, DURABLE_END, INTERCHANGE_HEADER,
     INTERCHANGE_RECORD, INTERCHANGE_FOOTER],
    ids=lambda layout: layout.record.__name__,
)  # fmt: skip
def test_fields_stand_where_the_format_says(layout: Layout) -> None:  # type: ignore[type-arg]
    assert [field.offset for field in layout.fields] == OFFSETS[layout.record.__name__]
    assert layout.order == "<"


@pytest.mark.parametrize(
    ("payload_bytes", "size"), [(1, 32), (8, 32), (9, 40), (16, 40), (17, 48), (1000, 1024)]
)
def test_a_record_takes_its_header_its_payload_and_padding(payload_bytes: int, size: int) -> None:
    assert record_bytes(payload_bytes) == size


def test_the_footer_stands_at_the_end_and_counts_into_the_next_base_offset() -> None:
    assert (RECORDS_START, FOOTER_BYTES) == (64, 96)
    assert records_end_max(1 << 16) == (1 << 16) - 96
    assert next_base_offset(1000, 176) == 1272
