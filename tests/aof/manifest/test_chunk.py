"""Chunks as bytes: whole, torn and corrupt are told apart at every truncation and flipped byte."""

from __future__ import annotations

import pytest

from lakebed.aof.manifest.chunk import Verdict, inspect_chunk, salvage
from lakebed.aof.manifest.format import CHUNK_HEADER, FLAG_SEALED, RECORDS_START
from lakebed.aof.manifest.records import ManifestRecord, Unknown, encode_record
from lakebed.base.errors import UnknownVersion
from tests.aof.manifest.chunks import RECORDS, chunk_bytes, sealed_chunk

ENDS = [RECORDS_START]
for _record in RECORDS:
    ENDS.append(ENDS[-1] + len(encode_record(_record)))
END = ENDS[-1]

# No checksum covers the header. Of these bytes a change is not seen, or is believed:
# - `flags`: one that was sealed looks as if it were not, and the other way round;
# - `base_record`: compared with the neighbours, not by the chunk alone;
# - `version`: a larger one is taken for a newer program's.
BELIEVED = {"flags", "base_record", "version"}


def field_at(offset: int) -> str:
    return next(f.name for f in CHUNK_HEADER.fields if f.offset <= offset < f.offset + f.size)


def good_records(data: bytes, index: int = 3) -> list[ManifestRecord]:
    return [placed.record for placed in inspect_chunk(memoryview(data), index).records]


@pytest.mark.parametrize("flags", [0, FLAG_SEALED])
def test_a_chunk_gives_back_its_records_and_where_they_are(flags: int) -> None:
    judged = inspect_chunk(memoryview(chunk_bytes(flags=flags)), 3)
    assert judged.verdict is Verdict.WHOLE
    assert [placed.record for placed in judged.records] == RECORDS
    assert [placed.position for placed in judged.records] == [(3, end) for end in ENDS[:-1]]
    assert judged.end == END
    assert judged.is_sealed == bool(flags)


def test_a_sealed_chunk_is_corrupt_at_every_flipped_byte() -> None:
    data = sealed_chunk()
    for offset in range(END):
        changed = bytearray(data)
        changed[offset] ^= 0x40
        if offset < RECORDS_START and field_at(offset) in BELIEVED:
            continue
        judged = inspect_chunk(memoryview(changed), 3)
        assert judged.verdict is not Verdict.WHOLE, offset
        if judged.header is not None:
            assert judged.verdict is Verdict.CORRUPT, offset
            assert not judged.is_usable, offset


def test_a_flipped_flag_or_base_record_is_believed_as_the_page_says() -> None:
    for name in ("flags", "base_record"):
        changed = bytearray(sealed_chunk())
        changed[CHUNK_HEADER.offset_of(name)] ^= 1
        assert inspect_chunk(memoryview(changed), 3).verdict is Verdict.WHOLE


def test_a_newer_version_is_refused_by_name() -> None:
    changed = bytearray(sealed_chunk())
    changed[CHUNK_HEADER.offset_of("version")] = 2
    with pytest.raises(UnknownVersion, match="2"):
        inspect_chunk(memoryview(changed), 3)


def test_an_older_version_that_never_was_is_corrupt() -> None:
    changed = bytearray(sealed_chunk())
    changed[CHUNK_HEADER.offset_of("version")] = 0
    assert inspect_chunk(memoryview(changed), 3).header is None


def test_a_sealed_chunk_is_corrupt_at_every_truncation() -> None:
    data = sealed_chunk()
    for length in range(RECORDS_START, END):
        judged = inspect_chunk(memoryview(data[:length]), 3)
        assert judged.verdict is Verdict.CORRUPT, length
        assert not judged.is_usable


def test_an_open_chunk_is_torn_at_every_truncation_and_keeps_what_is_before_it() -> None:
    data = chunk_bytes()
    for length in range(END):
        judged = inspect_chunk(memoryview(data[:length]), 3)
        assert judged.verdict is Verdict.TORN, length
        assert judged.is_usable
        assert judged.end == max(end for end in ENDS if end <= max(length, RECORDS_START))


def test_a_chunk_that_others_are_behind_is_never_torn() -> None:
    data = chunk_bytes()
    for length in range(END):
        judged = inspect_chunk(memoryview(data[:length]), 3, is_last=False)
        assert judged.verdict is Verdict.CORRUPT, length
        assert not judged.is_usable
    assert inspect_chunk(memoryview(data), 3, is_last=False).is_usable, "it is whole, if not sealed"


def test_an_open_chunk_with_a_flipped_byte_keeps_the_records_before_it() -> None:
    data = chunk_bytes()
    for offset in range(RECORDS_START, END):
        changed = bytearray(data)
        changed[offset] ^= 0x40
        judged = inspect_chunk(memoryview(changed), 3)
        assert judged.verdict is not Verdict.WHOLE, offset
        whole_before = sum(end <= offset for end in ENDS[1:])
        found = [placed.record for placed in judged.records]
        assert found[:whole_before] == RECORDS[:whole_before], offset
        if len(found) == whole_before:
            has_good_behind = whole_before < len(RECORDS) - 1
            expected = Verdict.CORRUPT if has_good_behind else Verdict.TORN
            assert judged.verdict is expected, offset
        else:
            # Padding, or a field of a record's header that its payload's checksum does not cover.
            assert len(found) == len(RECORDS)


def test_a_torn_header_does_not_make_the_chunk_unreadable() -> None:
    data = bytes(CHUNK_HEADER.size) + chunk_bytes()[CHUNK_HEADER.size :]
    judged = inspect_chunk(memoryview(data), 3)
    assert judged.header is None
    assert judged.is_usable
    assert good_records(data) == RECORDS


def test_what_was_not_committed_is_not_read() -> None:
    judged = inspect_chunk(memoryview(chunk_bytes(committed=3)), 3)
    assert judged.verdict is Verdict.WHOLE
    assert [placed.record for placed in judged.records] == RECORDS[:3]


def test_a_header_that_came_without_its_bytes_leaves_what_was_committed_before() -> None:
    data = bytearray(chunk_bytes())
    data[ENDS[3] : END] = bytes(END - ENDS[3])
    judged = inspect_chunk(memoryview(data), 3)
    assert (judged.verdict, judged.end) == (Verdict.TORN, ENDS[3])
    assert [placed.record for placed in judged.records] == RECORDS[:3]


def test_another_chunks_header_is_not_believed() -> None:
    judged = inspect_chunk(memoryview(sealed_chunk(index=4)), 3)
    assert judged.header is None
    assert "wrong version, length or chunk index" in judged.problem


def test_records_that_cannot_be_are_not_believed_without_the_chunks_checksum() -> None:
    data = bytearray(chunk_bytes())
    data[ENDS[2]] ^= 0x01  # the type of the third record: its payload fits another one's
    judged = inspect_chunk(
        memoryview(data), 3, plausibility=lambda: lambda placed: placed.record.segment_id == 0
    )
    assert len(judged.records) == 2


def test_records_of_unknown_types_are_carried() -> None:
    unknown = ManifestRecord(Unknown(99, b"from the future"), 1, 2, 3, flags=5)
    data = chunk_bytes([*RECORDS, unknown])
    assert good_records(data)[-1] == unknown


def test_salvage_finds_the_records_around_damage() -> None:
    data = bytearray(sealed_chunk())
    data[ENDS[1] + 50] ^= 0xFF
    found = [placed.record for placed in salvage(memoryview(data), 3)]
    assert found == [RECORDS[0], *RECORDS[2:]]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 103])
def test_any_short_file_is_read_without_a_crash(length: int) -> None:
    for filler in (0x00, 0xFF):
        judged = inspect_chunk(memoryview(bytes([filler]) * length), 0)
        assert judged.records == []
