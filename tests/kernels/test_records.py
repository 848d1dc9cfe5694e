"""The two record formats: sizes, offsets, golden bytes, and the page that describes them.

The golden files were written once and are never written again: a difference is a new version.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.layout import Layout
from lakebed.kernels.format import AOF_ALIGNMENT, AOF_RECORD, KERATIN_RECORD, KERATIN_TRAILER
from lakebed.kernels.results import Stop
from tests.kernels.samples import Kernels

GOLDEN = Path(__file__).parents[1] / "golden" / "records" / "v1"
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "records.md"

AOF_PAYLOADS = [b"a", b"12345678", bytes(range(256)), "réservoir".encode(), b"\x00"]
AOF_TIMESTAMPS = [0, 1, 1_700_000_000_123_456_789, (1 << 63) + 5, (1 << 64) - 1]
AOF_EXT_IDS = [0, 9, 0x0123456789ABCDEF, (1 << 64) - 1, 1]
AOF_CRC64 = 0x9AD597BAEBDBE49F

KERATIN_PAYLOADS = [b"", b"m", bytes(range(256)), b"last"]
KERATIN_HEADERS = [None, b"\x01\x00\x00\x00", b"", b"\xff" * 9]
KERATIN_OFFSETS = [0, 1, 0x0123456789ABCDEF, (1 << 64) - 1]
KERATIN_TIMESTAMPS = [0, 1_700_000_000_123, (1 << 63) + 1, (1 << 64) - 1]
KERATIN_FLAGS = [0, 1, 2, 0xFFFF]


@pytest.mark.parametrize(
    ("layout", "places"),
    [
        (AOF_RECORD, {"length": 0, "checksum": 4, "timestamp": 8, "ext_id": 16}),
        (
            KERATIN_RECORD,
            {
                "magic": 0,
                "version": 2,
                "flags": 4,
                "reserved": 6,
                "header_length": 8,
                "payload_length": 12,
                "timestamp_ms": 16,
                "offset": 24,
            },
        ),
        (KERATIN_TRAILER, {"crc32c": 0}),
    ],
    ids=["aof", "keratin", "keratin-trailer"],
)
def test_fields_stand_where_the_format_says(layout: Layout, places: dict[str, int]) -> None:  # type: ignore[type-arg]
    assert {field.name: field.offset for field in layout.fields} == places


def test_sizes_and_alignment_are_those_of_the_format() -> None:
    sizes = (AOF_RECORD.size, KERATIN_RECORD.size, KERATIN_TRAILER.size, AOF_ALIGNMENT)
    assert sizes == (24, 32, 4, 8)


def test_aof_records_are_encoded_as_in_the_golden_file(kernels: Kernels) -> None:
    golden = (GOLDEN / "aof.bin").read_bytes()
    encoded = kernels.aof_encode(
        AOF_PAYLOADS, timestamps=AOF_TIMESTAMPS, ext_ids=AOF_EXT_IDS, capacity=len(golden)
    )
    assert encoded.data == golden
    assert encoded.crc64 == AOF_CRC64
    assert encoded.offsets.tolist() == [0, 32, 64, 344, 384]


def test_the_golden_aof_file_is_scanned_into_its_columns(kernels: Kernels) -> None:
    golden = (GOLDEN / "aof.bin").read_bytes()
    scan = kernels.aof_scan(golden, 0, len(golden), count_max=100)
    assert scan.offsets.tolist() == [0, 32, 64, 344, 384]
    assert scan.lengths.tolist() == [len(payload) for payload in AOF_PAYLOADS]
    assert scan.timestamps.tolist() == AOF_TIMESTAMPS
    assert scan.ext_ids.tolist() == AOF_EXT_IDS
    assert (scan.end, scan.stop) == (len(golden), Stop.END)


def test_keratin_records_are_encoded_as_in_the_golden_file(kernels: Kernels) -> None:
    golden = (GOLDEN / "keratin.bin").read_bytes()
    encoded = kernels.keratin_encode(
        KERATIN_PAYLOADS,
        KERATIN_HEADERS,
        offsets=KERATIN_OFFSETS,
        timestamps_ms=KERATIN_TIMESTAMPS,
        flags=KERATIN_FLAGS,
        capacity=len(golden),
    )
    assert encoded.data == golden
    assert encoded.positions.tolist() == [0, 36, 77, 369]


def test_the_golden_keratin_file_is_scanned_into_its_columns(kernels: Kernels) -> None:
    golden = (GOLDEN / "keratin.bin").read_bytes()
    scan = kernels.keratin_scan(golden, 0, len(golden), count_max=100)
    assert scan.positions.tolist() == [0, 36, 77, 369]
    assert scan.offsets.tolist() == KERATIN_OFFSETS
    assert scan.timestamps_ms.tolist() == KERATIN_TIMESTAMPS
    assert scan.flags.tolist() == KERATIN_FLAGS
    assert scan.header_lengths.tolist() == [len(block or b"") for block in KERATIN_HEADERS]
    assert scan.payload_lengths.tolist() == [len(payload) for payload in KERATIN_PAYLOADS]
    assert (scan.end, scan.stop) == (len(golden), Stop.END)


@pytest.mark.parametrize("layout", [AOF_RECORD, KERATIN_RECORD, KERATIN_TRAILER])
def test_the_page_contains_the_layouts_own_table(layout: Layout) -> None:  # type: ignore[type-arg]
    assert layout.markdown() in PAGE.read_text(encoding="utf-8")
