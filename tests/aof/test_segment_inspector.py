"""Every truncation and every flipped bit of small segments: whole, torn or corrupt, rightly told.

The bytes that nothing covers are listed by name here, and shown to be exactly those.
"""

from __future__ import annotations

import mmap

import pytest

from lakebed.aof.footer import encode_footer
from lakebed.aof.format import (
    AOF_RECORD,
    FOOTER_BYTES,
    RECORDS_START,
    SEGMENT_FOOTER,
    SEGMENT_HEADER,
    record_bytes,
)
from lakebed.aof.inspection import Inspection, SegmentLayout, Verdict
from lakebed.aof.interchange import INTERCHANGE_FOOTER, INTERCHANGE_HEADER, FooterFlags
from lakebed.aof.segment_inspector import inspect_segment
from lakebed.aof.survey import DAMAGES_COUNT_MAX
from lakebed.base.errors import Corrupt, Torn, UnknownVersion
from lakebed.kernels import crc64nvme
from tests.aof.segments import (
    NAME,
    PAYLOADS,
    SIZE,
    TIMESTAMPS,
    flipped,
    interchange_segment,
    runtime_segment,
)

SEALED = runtime_segment()
UNSEALED = runtime_segment(is_sealed=False)
INTERCHANGE = interchange_segment()

OFFSETS = [64, 96, 136]  # of the records in the runtime segments
END = 176
FOOTER_AT = SIZE - FOOTER_BYTES


def look(data: bytes, confirmed: int | None = None) -> Inspection:
    return inspect_segment(data, name=NAME, confirmed=confirmed)


def outcome(data: bytes) -> str:
    """The verdict, "unsealed" if a footer was lost from a whole file, or "version"."""
    try:
        inspection = look(data)
    except UnknownVersion:
        return "version"
    if inspection.verdict is Verdict.WHOLE and inspection.footer_problem:
        return "unsealed"
    return inspection.verdict.value


def places(layout, names: str, start: int = 0) -> set[int]:  # type: ignore[no-untyped-def]
    """The bytes of some fields of a record that stands at `start`."""
    fields = [layout.field(name) for name in names.split()]
    return {start + f.offset + byte for f in fields for byte in range(f.size)}


def padding(layout, start: int = 0) -> set[int]:  # type: ignore[no-untyped-def]
    names = " ".join(field.name for field in layout.fields)
    return set(range(start, start + layout.size)) - places(layout, names, start)


def check_flips(data: bytes, expected: dict[str, set[int]]) -> None:
    """Each bit of each byte gives the outcome under which that byte is listed."""
    assert sum(map(len, expected.values())) == len(data), "each byte is listed once"
    for wanted, offsets in expected.items():
        for offset in sorted(offsets):
            for bit in range(8):
                found = outcome(flipped(data, offset, bit))
                assert found == wanted, f"bit {bit} of byte {offset} gives {found}"


def test_a_sealed_segment_is_whole_and_fully_described() -> None:
    found = look(SEALED)
    assert (found.layout, found.verdict, found.is_sealed) == (
        SegmentLayout.RUNTIME,
        Verdict.WHOLE,
        True,
    )
    assert (found.record_count, found.end, found.last_offset) == (3, END, OFFSETS[-1])
    assert (found.last_timestamp_ns, found.max_timestamp_ns) == (TIMESTAMPS[2], TIMESTAMPS[1])
    assert found.payload_crc64 == crc64nvme(SEALED[RECORDS_START:END])
    assert found.header == SEGMENT_HEADER.unpack(SEALED)
    assert found.footer == SEGMENT_FOOTER.unpack(SEALED, FOOTER_AT)
    assert [(good.start, good.end, good.record_count) for good in found.good_ranges] == [
        (RECORDS_START, END, 3)
    ]
    assert not found.damages
    assert not found.problems
    assert not found.notes
    assert found.tail is None
    assert found.footer_problem is None
    found.require_whole("any")


def test_an_unsealed_segment_with_a_clean_end_is_whole() -> None:
    found = look(UNSEALED)
    assert (found.verdict, found.is_sealed, found.footer) == (Verdict.WHOLE, False, None)
    assert (found.record_count, found.end, found.footer_problem) == (3, END, None)


def test_an_interchange_segment_is_told_by_its_magic() -> None:
    found = look(INTERCHANGE)
    assert (found.layout, found.verdict, found.is_sealed) == (
        SegmentLayout.INTERCHANGE,
        Verdict.WHOLE,
        True,
    )
    assert (found.record_count, found.end) == (3, len(INTERCHANGE) - INTERCHANGE_FOOTER.size)
    assert found.max_timestamp_ns == TIMESTAMPS[1] // 10**6 * 10**6


def test_every_flipped_bit_of_a_sealed_segment_is_told() -> None:
    uncovered = places(SEGMENT_HEADER, "base_timestamp") | padding(SEGMENT_HEADER)
    zero_space = set(range(END, FOOTER_AT))
    version = places(SEGMENT_HEADER, "version")
    footer = set(range(FOOTER_AT, SIZE))
    whole = uncovered | zero_space
    check_flips(
        SEALED,
        {
            "whole": whole,
            "version": version,
            "unsealed": footer,
            "corrupt": set(range(SIZE)) - whole - version - footer,
        },
    )


def test_every_flipped_bit_of_an_unsealed_segment_is_told() -> None:
    uncovered = places(SEGMENT_HEADER, "base_record_count base_timestamp ext_id")
    uncovered |= padding(SEGMENT_HEADER)
    for offset, payload in zip(OFFSETS, PAYLOADS, strict=True):
        uncovered |= places(AOF_RECORD, "timestamp ext_id", offset)
        used = offset + AOF_RECORD.size + len(payload)
        uncovered |= set(range(used, offset + record_bytes(len(payload))))
    version = places(SEGMENT_HEADER, "version")
    footer = set(range(FOOTER_AT, SIZE))
    last_record_and_behind = set(range(OFFSETS[-1], FOOTER_AT)) - uncovered
    known = uncovered | version | footer | last_record_and_behind
    check_flips(
        UNSEALED,
        {
            "whole": uncovered,
            "version": version,
            "unsealed": footer,
            "torn": last_record_and_behind,
            "corrupt": set(range(SIZE)) - known,
        },
    )


def test_every_flipped_bit_of_an_interchange_segment_is_told() -> None:
    footer_at = len(INTERCHANGE) - INTERCHANGE_FOOTER.size
    uncovered = places(INTERCHANGE_FOOTER, "ext_id flags", footer_at)
    version = places(INTERCHANGE_HEADER, "version")
    place = places(INTERCHANGE_FOOTER, "durable_bytes", footer_at)  # without it: no footer
    check_flips(
        INTERCHANGE,
        {
            "whole": uncovered,
            "version": version,
            "torn": place,
            "corrupt": set(range(len(INTERCHANGE))) - uncovered - version - place,
        },
    )


@pytest.mark.parametrize("data", [SEALED, UNSEALED], ids=["sealed", "unsealed"])
def test_every_truncation_of_a_runtime_segment_is_told(data: bytes) -> None:
    """It never was shorter: bytes are missing. Too short for a header, nothing more can be said."""
    for length in range(len(data)):
        expected = "torn" if length < RECORDS_START else "corrupt"
        assert look(data[:length]).verdict.value == expected, length


def test_every_truncation_of_an_interchange_segment_is_torn() -> None:
    for length in range(len(INTERCHANGE)):
        assert look(INTERCHANGE[:length]).verdict is Verdict.TORN, length


def test_whole_records_around_damage_stay_readable() -> None:
    for data in (SEALED, UNSEALED):
        found = look(flipped(data, OFFSETS[1] + 24))
        assert found.verdict is Verdict.CORRUPT
        assert [(good.start, good.end) for good in found.good_ranges] == [(64, 96), (136, 176)]
        assert [(damage.offset, damage.length) for damage in found.damages] == [(96, 40)]
        assert "checksum" in found.damages[0].problem
        assert (found.record_count, found.end) == (1, 96)


def test_whole_records_around_damage_stay_readable_in_the_interchange_layout() -> None:
    for cut in (0, INTERCHANGE_FOOTER.size):
        data = flipped(INTERCHANGE, 96 + 32)[: len(INTERCHANGE) - cut]
        found = look(data)
        assert found.verdict is Verdict.CORRUPT
        assert [(good.start, good.end) for good in found.good_ranges] == [(56, 96), (144, 192)]


def test_a_lost_sector_with_records_behind_it_is_corrupt() -> None:
    found = look(UNSEALED[:96] + bytes(40) + UNSEALED[136:])
    assert found.verdict is Verdict.CORRUPT
    assert found.damages[0] == (96, 40, "zeros where a record should be")


def test_a_lost_sector_with_nothing_valid_behind_it_is_torn() -> None:
    found = look(UNSEALED[:136] + bytes(24) + UNSEALED[160:])
    assert found.verdict is Verdict.TORN
    assert found.tail == (136, 40, "zeros where a record should be")


def test_a_lost_header_with_records_behind_it_is_corrupt() -> None:
    found = look(bytes(64) + UNSEALED[64:])
    assert (found.verdict, found.record_count) == (Verdict.CORRUPT, 3)
    assert found.problems[0].problem == "the segment has records but no header"


def test_a_lost_header_with_nothing_valid_behind_it_is_torn() -> None:
    found = look(bytes(64) + flipped(UNSEALED, 165)[136:176].ljust(SIZE - 64, b"\0"))
    assert (found.layout, found.verdict) == (SegmentLayout.RUNTIME, Verdict.TORN)


def test_records_behind_a_damaged_magic_stay_readable() -> None:
    for data in (SEALED, UNSEALED, INTERCHANGE):
        found = look(b"\xff\xff" + data[2:])
        assert (found.verdict, found.record_count) == (Verdict.CORRUPT, 3)
        assert "magic" in found.problems[0].problem


def test_all_zeros_are_an_empty_segment() -> None:
    found = look(bytes(SIZE))
    assert (found.layout, found.verdict, found.record_count) == (
        SegmentLayout.EMPTY,
        Verdict.WHOLE,
        0,
    )
    assert look(b"").verdict is Verdict.TORN
    assert look(bytes(63)).verdict is Verdict.TORN
    assert look(bytes(SIZE), confirmed=RECORDS_START).verdict is Verdict.WHOLE
    assert look(bytes(SIZE), confirmed=96).verdict is Verdict.CORRUPT


def test_what_is_no_segment_is_unknown_and_corrupt() -> None:
    found = look(b"PK\x03\x04 something else entirely " * 30)
    assert (found.layout, found.verdict) == (SegmentLayout.UNKNOWN, Verdict.CORRUPT)


def test_a_bad_record_below_the_confirmed_end_is_corrupt_with_nothing_behind_it() -> None:
    damaged = flipped(UNSEALED, OFFSETS[2] + 24)
    assert look(damaged).verdict is Verdict.TORN
    assert look(damaged, confirmed=OFFSETS[2]).verdict is Verdict.TORN
    assert look(damaged, confirmed=END).verdict is Verdict.CORRUPT
    zeroed = UNSEALED[: OFFSETS[2]] + bytes(SIZE - OFFSETS[2])
    assert look(zeroed).verdict is Verdict.WHOLE
    assert look(zeroed, confirmed=END).verdict is Verdict.CORRUPT
    assert look(UNSEALED, confirmed=END).verdict is Verdict.WHOLE


def test_bytes_between_the_records_and_the_footer_are_only_noted() -> None:
    found = look(flipped(SEALED, 300))
    assert found.verdict is Verdict.WHOLE
    assert found.notes == ("there are non-zero bytes between offset 176 and the footer",)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segment_index", 8),
        ("base_record_count", 91),
        ("record_count", 2),
        ("durable_bytes", 137),
        ("durable_bytes", 1 << 60),
        ("last_record_id", 5),
        ("last_timestamp", 5),
        ("payload_checksum", 5),
        ("ext_id", 5),
        ("reserved", 1),
    ],
)
def test_a_footer_with_a_right_checksum_must_still_match(field: str, value: int) -> None:
    footer = SEGMENT_FOOTER.unpack(SEALED, FOOTER_AT)._replace(**{field: value})
    found = look(SEALED[:FOOTER_AT] + encode_footer(footer))
    assert found.verdict is Verdict.CORRUPT
    assert field in " ".join(problem.problem for problem in found.problems)


def test_a_footer_of_another_version_is_refused() -> None:
    footer = SEGMENT_FOOTER.unpack(SEALED, FOOTER_AT)._replace(version=3)
    with pytest.raises(UnknownVersion, match="expected 2, found 3"):
        look(SEALED[:FOOTER_AT] + encode_footer(footer))


def test_a_file_under_another_name_is_corrupt() -> None:
    for data in (SEALED, UNSEALED, INTERCHANGE):
        for name in (NAME._replace(segment_id=8), NAME._replace(created_at=1)):
            assert inspect_segment(data, name=name).verdict is Verdict.CORRUPT
        assert inspect_segment(data, name=None).verdict is Verdict.WHOLE
    moved = NAME._replace(base_offset=1 << 40)
    assert inspect_segment(SEALED, name=moved).verdict is Verdict.CORRUPT
    assert inspect_segment(INTERCHANGE, name=moved).verdict is Verdict.CORRUPT


def test_an_interchange_segment_may_be_partial_and_flags_unknown_to_us_are_kept() -> None:
    found = look(interchange_segment(flags=FooterFlags.PARTIAL | 1 << 9))
    assert (found.verdict, found.is_sealed) == (Verdict.WHOLE, False)
    assert found.notes == ("unknown flags in the footer: 0x204",)


def test_a_mapped_file_is_looked_at_in_place() -> None:
    with mmap.mmap(-1, SIZE) as mapped:
        mapped[:] = SEALED
        view = memoryview(mapped).toreadonly()
        assert inspect_segment(view, name=NAME).verdict is Verdict.WHOLE
        view.release()


def test_a_record_longer_than_a_window_of_zeros_is_found_behind_damage() -> None:
    size = 1 << 23
    data = runtime_segment(
        [b"a", b"b" * 3_000_000, b"c"], size=size, is_sealed=False, timestamps=[1] * 3,
        ext_ids=[0] * 3,
    )  # fmt: skip
    found = look(flipped(data, RECORDS_START + 4))
    assert [(good.start, good.record_count) for good in found.good_ranges] == [(96, 2)]
    assert found.damages[0][:2] == (64, 32)


def test_more_damage_than_is_listed_leaves_the_rest_unsearched() -> None:
    count = 2 * DAMAGES_COUNT_MAX + 20
    size = 1 << 18
    data = bytearray(
        runtime_segment(
            [b"x"] * count, size=size, is_sealed=False, timestamps=[1] * count, ext_ids=[0] * count
        )
    )
    for index in range(0, count, 2):
        data[RECORDS_START + 32 * index + 24] ^= 1
    found = look(bytes(data))
    assert found.verdict is Verdict.CORRUPT
    assert len(found.damages) == DAMAGES_COUNT_MAX
    assert found.tail is not None
    assert "not checked" in found.tail.problem


def test_the_first_damage_is_what_an_error_names() -> None:
    with pytest.raises(Corrupt, match="some file: at byte 96: a record with a wrong checksum"):
        look(flipped(UNSEALED, OFFSETS[1] + 24)).require_whole("some file")
    with pytest.raises(Torn, match="at byte 136"):
        look(flipped(UNSEALED, OFFSETS[2] + 24)).require_whole("some file")
