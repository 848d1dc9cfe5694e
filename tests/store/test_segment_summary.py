"""How many records a log has, when some of its segments are elsewhere and do not say."""

from __future__ import annotations

import pytest

from lakebed.store.segment_summary import SegmentSummary, record_count


def segment(records: int | None, base: int | None, *, base_offset: int = 1) -> SegmentSummary:
    return SegmentSummary(
        segment_id=0,
        base_offset=base_offset,
        created_at=0,
        sealed_at=0,
        bytes=0,
        file_bytes=0,
        records=records,
        base_records=base,
        state="sealed",
        tiers=(0,),
        path="",
        flush_failure=False,
    )


FIRST_ELSEWHERE = segment(None, None, base_offset=0)
ELSEWHERE = segment(None, None)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([], 0),
        ([segment(3, 0, base_offset=0), segment(4, 3)], 7),
        ([segment(4, 100), segment(5, 104)], 9),
        ([FIRST_ELSEWHERE, segment(5, 20)], 25),
        ([segment(3, 0, base_offset=0), ELSEWHERE, ELSEWHERE, segment(5, 20)], 25),
        ([segment(4, 100), ELSEWHERE, segment(5, 110)], 15),
        ([segment(4, 100), ELSEWHERE, segment(5, 110), segment(0, None)], 15),
        ([ELSEWHERE, segment(5, 20)], None),
        ([segment(3, 0, base_offset=0), ELSEWHERE], None),
        ([FIRST_ELSEWHERE, segment(0, None)], None),
        ([FIRST_ELSEWHERE, ELSEWHERE, segment(5, 1)], None),
        ([segment(4, 100), ELSEWHERE, segment(5, 0)], None),
        ([segment(4, 100), segment(5, 200)], 9),
        ([segment(3, 0, base_offset=0), segment(4, None), segment(5, 9)], 12),
        ([segment(4, None, base_offset=0), ELSEWHERE, segment(5, 20)], None),
        ([FIRST_ELSEWHERE, segment(4, None), segment(5, 20)], None),
        ([segment(4, None, base_offset=0), segment(5, 6), ELSEWHERE, segment(5, 20)], 23),
    ],
)
def test_segments_that_do_not_say_are_counted_by_the_next(
    segments: list[SegmentSummary], expected: int | None
) -> None:
    assert record_count(segments) == expected
