"""A manifest log's state beside the segments on disk: what is damage, and what is only lag."""

from __future__ import annotations

import pytest

from lakebed.aof.format import SegmentFooter
from lakebed.aof.manifest.format import LocalEvicted, SealSegment, SegmentOpened
from lakebed.aof.manifest.index import ManifestIndex
from lakebed.aof.manifest.records import ManifestRecord, Payload
from lakebed.aof.paths import SegmentName
from lakebed.store.manifest_segments import Comparison, OnDisk, SegmentFiles

BYTES, CRC, EXT_ID, WATERMARK = 4096, 0xABCD, 7, 9


def index(*, sealed: int, opened: int = 0, evicted: tuple[int, ...] = ()) -> ManifestIndex:
    """Of segments 0, 1 and so on: so many sealed, then so many opened; then some that went."""
    found = ManifestIndex()
    for number in range(sealed + opened):
        _apply(found, number, SegmentOpened(number * 5000, 1))
        if number < sealed:
            _apply(found, number, SealSegment(BYTES, CRC, EXT_ID, WATERMARK, 0))
    for number in evicted:
        _apply(found, number, LocalEvicted(BYTES))
    return found


def _apply(found: ManifestIndex, segment_id: int, payload: Payload) -> None:
    found.apply(ManifestRecord(payload, segment_id, 0, 1000))


def on_disk(number: int, *, is_sealed: bool = True, **changes: int) -> OnDisk:
    footer = SegmentFooter(
        magic=0, version=2, reserved=0, segment_index=number, checksum=0, base_record_count=0,
        record_count=1, durable_bytes=BYTES, last_record_id=0, last_timestamp=0, sealed_at=0,
        payload_checksum=CRC, ext_id=EXT_ID, coordinator_watermark=WATERMARK, flush_failure=0,
    )._replace(**changes)  # fmt: skip
    name = SegmentName(number, number * 5000, 0)
    return OnDisk(name, f"s/{number}", False, footer if is_sealed else None, "")


def compared(
    state: ManifestIndex,
    *files: OnDisk,
    archived: tuple[int, ...] = (),
    is_current: bool = True,
    is_at_rest: bool = True,
) -> Comparison:
    found = {file.name.segment_id: file for file in files}
    return Comparison(
        state,
        SegmentFiles("s", found, frozenset(archived)),
        is_current=is_current,
        is_at_rest=is_at_rest,
    )


def told(comparison: Comparison) -> tuple[int, int]:
    """How many problems and notes."""
    return len(comparison.problems), len(comparison.notes)


def test_a_state_that_agrees_has_nothing_to_tell() -> None:
    found = compared(index(sealed=2, opened=1), *map(on_disk, (0, 1)), on_disk(2, is_sealed=False))
    assert told(found) == (0, 0)
    assert found.compared_count == 3


@pytest.mark.parametrize(
    "field", ["durable_bytes", "payload_checksum", "ext_id", "coordinator_watermark"]
)
def test_every_field_of_a_seal_is_compared(field: str) -> None:
    file = on_disk(0)
    assert file.footer is not None
    changed = file._replace(footer=file.footer._replace(**{field: 1}))
    found = compared(index(sealed=2), changed, on_disk(1))
    (problem,) = found.problems
    assert problem.path == "s/0"
    assert told(compared(index(sealed=1), on_disk(0, flush_failure=1))) == (1, 0)


def test_another_base_offset_is_a_problem() -> None:
    file = on_disk(1)._replace(name=SegmentName(1, 1234, 0))
    (problem,) = compared(index(sealed=2), on_disk(0), file).problems
    assert problem.problem == "its base_offset is 1234, but 5000 in the manifest log"


def test_new_segments_and_seals_at_the_newest_end_are_lag() -> None:
    unrecorded = compared(index(sealed=1), *map(on_disk, (0, 1)), on_disk(2, is_sealed=False))
    assert told(unrecorded) == (0, 2)
    assert told(compared(index(sealed=1, opened=1), on_disk(0), on_disk(1))) == (0, 1)
    empty = on_disk(1, is_sealed=False)._replace(is_empty=True)
    assert told(compared(index(sealed=1), on_disk(0), empty)) == (0, 0)
    assert told(compared(ManifestIndex(), *map(on_disk, (0, 1)))) == (0, 2)


def test_a_seal_or_a_segment_that_is_unknown_before_known_ones_is_a_problem() -> None:
    lost_seal = index(sealed=0, opened=1)
    _apply(lost_seal, 1, SegmentOpened(5000, 1))
    _apply(lost_seal, 1, SealSegment(BYTES, CRC, EXT_ID, WATERMARK, 0))
    assert told(compared(lost_seal, on_disk(0), on_disk(1))) == (1, 0)
    lost_segment = index(sealed=3, evicted=(1,))
    assert told(compared(lost_segment, *map(on_disk, (0, 1, 2)))) == (1, 0)


def test_a_segment_that_left_the_log_may_still_have_its_file() -> None:
    found = compared(index(sealed=3, evicted=(0,)), *map(on_disk, (0, 1, 2)))
    assert told(found) == (0, 1)
    assert "was removed from the log" in found.notes[0]


def test_the_oldest_files_may_be_gone_before_that_is_recorded() -> None:
    state = index(sealed=3)
    assert told(compared(state, on_disk(2), is_at_rest=False)) == (0, 2)
    at_rest = compared(state, on_disk(2))
    assert told(at_rest) == (2, 0)
    assert at_rest.is_doubtful, "a second look may find it recorded"
    assert told(compared(state, on_disk(2), archived=(0, 1))) == (0, 2)


@pytest.mark.parametrize("is_at_rest", [False, True])
def test_a_file_that_retention_could_not_have_removed_is_lost(is_at_rest: bool) -> None:
    state = index(sealed=3)
    for kept in ((0, 2), (0, 1), ()):
        found = compared(state, *map(on_disk, kept), is_at_rest=is_at_rest)
        assert len(found.problems) == 3 - len(kept)
        assert not found.is_doubtful


def test_a_segment_may_be_opened_before_it_has_a_file() -> None:
    assert told(compared(index(sealed=1, opened=2), on_disk(0))) == (0, 2)
    behind = compared(index(sealed=1, opened=2), on_disk(0), on_disk(2, is_sealed=False))
    assert told(behind) == (1, 0)


def test_while_it_is_switched_off_only_what_was_recorded_counts() -> None:
    state = index(sealed=3)
    assert told(compared(state, on_disk(0), on_disk(2), is_current=False)) == (0, 1)
    changed = compared(state, on_disk(0, ext_id=1), on_disk(1), on_disk(2), is_current=False)
    assert told(changed) == (1, 0)
