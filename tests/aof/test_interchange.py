"""The interchange layout: what is written, and what is read back from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.inspection import Verdict
from lakebed.aof.interchange import (
    INTERCHANGE_FOOTER,
    INTERCHANGE_HEADER,
    INTERCHANGE_MAGIC,
    INTERCHANGE_RECORD,
    FooterFlags,
    InterchangeEncoder,
    InterchangeRecord,
    RecordFlags,
    decode_interchange_footer,
    decode_interchange_header,
    interchange_record_bytes,
    iterate_interchange,
)
from lakebed.aof.segment_inspector import inspect_segment
from lakebed.base.errors import InputError, UnknownVersion
from lakebed.kernels import crc64nvme, fold64
from tests.aof.segments import NAME, PAYLOADS, STREAM_ID, interchange_segment

WHOLE = interchange_segment()


def new_encoder() -> InterchangeEncoder:
    return InterchangeEncoder(stream_id=STREAM_ID, segment_id=7, creation_ts_ms=5)


def test_header_records_and_footer_follow_each_other_without_a_gap() -> None:
    header = decode_interchange_header(WHOLE)
    assert header[:5] == (INTERCHANGE_MAGIC, 2, STREAM_ID, 7, 1_700_000_000_123)
    assert WHOLE[:8] == b"MGES2FOA"
    footer = decode_interchange_footer(WHOLE)
    assert footer is not None
    records_end = 56 + 40 + 48 + 48
    assert footer == (3, records_end, crc64nvme(WHOLE[:records_end]), 41, FooterFlags.SEALED)
    assert len(WHOLE) == records_end + INTERCHANGE_FOOTER.size


def test_a_record_carries_its_logical_offset_and_the_folded_checksum() -> None:
    record = INTERCHANGE_RECORD.unpack(WHOLE, INTERCHANGE_HEADER.size)
    assert record.logical_offset == NAME.base_offset + 64
    assert record.record_crc32 == fold64(crc64nvme(PAYLOADS[0]))
    assert record.append_ts_ms == 1_700_000_000_200


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=200),
            st.integers(0, 1 << 20),
            st.integers(0, 1 << 44),
            st.integers(0, (1 << 32) - 1),
        ),
        max_size=12,
        unique_by=lambda record: record[1],
    )
)
def test_records_round_trip(values: list[tuple[bytes, int, int, int]]) -> None:
    records = [
        InterchangeRecord(payload, 8 * offset, timestamp_ms, flags)
        for payload, offset, timestamp_ms, flags in sorted(values, key=lambda value: value[1])
    ]
    encoder = new_encoder()
    data = encoder.header() + encoder.records(records[:5]) + encoder.records(records[5:])
    end = len(data)
    data += encoder.footer(ext_id=9, flags=FooterFlags.SEALED | FooterFlags.COMPACTED)
    assert list(iterate_interchange(memoryview(data), end=end)) == records
    found = inspect_segment(data, name=None)
    assert (found.verdict, found.record_count) == (Verdict.WHOLE, len(records))


def test_flags_are_bits_with_names() -> None:
    assert [int(flag) for flag in RecordFlags] == [1, 2]
    assert [int(flag) for flag in FooterFlags] == [1, 2, 4]


def test_logical_offsets_only_rise() -> None:
    encoder = new_encoder()
    encoder.records([InterchangeRecord(b"a", 64, 0)])
    for offset in (64, 0):
        with pytest.raises(InputError, match="not greater than that of the record before"):
            encoder.records([InterchangeRecord(b"b", offset, 0)])


def test_an_empty_payload_is_refused() -> None:
    with pytest.raises(InputError, match="payload is empty"):
        new_encoder().records([InterchangeRecord(b"", 64, 0)])


def test_another_version_is_refused() -> None:
    header = decode_interchange_header(WHOLE)._replace(version=3)
    with pytest.raises(UnknownVersion, match="expected 2, found 3"):
        decode_interchange_header(INTERCHANGE_HEADER.pack(header))


@pytest.mark.parametrize(("payload_bytes", "size"), [(1, 40), (8, 40), (9, 48), (16, 48)])
def test_a_record_takes_its_header_its_payload_and_padding(payload_bytes: int, size: int) -> None:
    assert interchange_record_bytes(payload_bytes) == size
