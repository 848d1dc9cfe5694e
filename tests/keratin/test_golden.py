"""Bytes of version 1, written once and never again: a difference is a new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.layout import Layout
from lakebed.keratin import format as keratin
from lakebed.keratin import headers as blocks
from lakebed.keratin.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from lakebed.keratin.durable_end import decode_durable_end, encode_durable_end
from lakebed.keratin.format import (
    DURABLE_END_MAGIC,
    DurableEnd,
    IndexEntry,
    ManifestSegment,
    ProducerRun,
    RecordFlags,
    TimeEntry,
)
from lakebed.keratin.headers import Producer, decode_headers, encode_headers
from lakebed.keratin.index_file import (
    decode_index,
    decode_time_index,
    encode_index,
    encode_time_index,
)
from lakebed.keratin.log_file import decode_log_header, encode_log_header
from lakebed.keratin.manifest import PartitionManifest, decode_manifest, encode_manifest
from lakebed.keratin.producers import decode_producers, encode_producers
from lakebed.kernels import keratin_encode, keratin_scan

GOLDEN = Path(__file__).parents[1] / "golden" / "keratin" / "v1"
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "keratin.md"

BASE = 4_294_967_301
CREATED_MS = 1_700_000_000_123
MANIFEST = PartitionManifest(
    created_ms=CREATED_MS,
    segment_bytes_max=268_435_456,
    index_stride_bytes=65_536,
    open_segments_max=64,
    active_base_offset=BASE,
    next_offset=BASE + 5,
    segments=(ManifestSegment(7, 99, 1_000_003, 88), ManifestSegment(100, BASE - 1, 68, 72)),
)
STARTED = MANIFEST._replace(start_offset=42)
PLACES = [IndexEntry(0, 0, 68), IndexEntry(3, 0, 1_048_700), IndexEntry(900, 0, 1 << 33)]
TIMES = [TimeEntry(CREATED_MS, 0, 0), TimeEntry(CREATED_MS, 3, 0), TimeEntry(1 << 50, 901, 0)]
END = DurableEnd(DURABLE_END_MAGIC, 1, 0, bytes(range(16)), 5, BASE, 1_048_700, BASE + 5, 0)
RUNS = [
    ProducerRun((1 << 62) + 7, 12, 0, (1 << 31) - 2, 5, BASE - 9, CREATED_MS),
    ProducerRun(1, 0, 0, 0, 1 << 30, 0, 0),
]
CHECKPOINT = Checkpoint(
    base_offset=BASE,
    created_ms=CREATED_MS,
    position=(1 << 33) + 1000,
    last_position=(1 << 33) + 900,
    next_offset=BASE + 902,
    timestamp_ms_max=1 << 50,
    indexed_end=(1 << 33) + 500,
    places=PLACES,
    times=TIMES,
    runs=RUNS,
)
PRODUCER = Producer((1 << 62) + 7, 12, (1 << 31) - 1)
HEADERS = (("trace", b"\x00\xff"), ("réservoir", None), ("", b""))


def log() -> bytes:
    """Every flag, every kind of headers block, an offset beyond 32 bits."""
    records = keratin_encode(
        [b"plain", b"", bytes(range(256)), b"mark", b"later"],
        [
            None,
            encode_headers(b"key", None),
            encode_headers(b"", PRODUCER, HEADERS),
            None,
            encode_headers(None, None, [("lakebed-not-before-ms", b"1800000000000")]),
        ],
        offsets=BASE,
        timestamps_ms=[CREATED_MS, CREATED_MS, 0, (1 << 63) - 1, CREATED_MS + 1],
        flags=[0, RecordFlags.TOMBSTONE, 0, RecordFlags.CONTROL, RecordFlags.SCHEDULED],
        capacity=1 << 20,
    )
    return encode_log_header(base_offset=BASE, created_ms=CREATED_MS) + records.data


def contents() -> dict[str, bytes]:
    """What this version writes, by the name of the golden file."""
    facts = {"base_offset": BASE, "created_ms": CREATED_MS}
    return {
        "manifest.bin": encode_manifest(MANIFEST),
        "manifest-start.bin": encode_manifest(STARTED),
        "segment.log": log(),
        "segment.idx": encode_index(PLACES, **facts),
        "segment.tidx": encode_time_index(TIMES, **facts),
        "segment.producers": encode_producers(RUNS, base_offset=BASE),
        "checkpoint": encode_checkpoint(CHECKPOINT),
        "durable_end": encode_durable_end(END),
        "headers.bin": encode_headers(b"key", PRODUCER, HEADERS),
    }


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", contents())
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert contents()[name] == golden(name)


def test_golden_files_are_read() -> None:
    place = {"path": "here", "base_offset": BASE}
    assert decode_manifest(golden("manifest.bin"), path="here") == MANIFEST
    assert decode_manifest(golden("manifest-start.bin"), path="here") == STARTED
    assert decode_index(golden("segment.idx"), **place) == PLACES  # type: ignore[arg-type]
    assert decode_time_index(golden("segment.tidx"), **place) == TIMES  # type: ignore[arg-type]
    assert decode_producers(golden("segment.producers"), **place) == RUNS  # type: ignore[arg-type]
    assert decode_checkpoint(golden("checkpoint"), path="here") == CHECKPOINT
    end = decode_durable_end(golden("durable_end"), path="here")
    assert end._replace(crc32c=0) == END
    assert decode_headers(golden("headers.bin")) == (b"key", PRODUCER, HEADERS)


def test_the_golden_log_is_read() -> None:
    data = golden("segment.log")
    header = decode_log_header(data, path="here", base_offset=BASE)
    assert (header.base_offset, header.created_ms) == (BASE, CREATED_MS)
    found = keratin_scan(memoryview(data), keratin.RECORDS_START, len(data), count_max=100)
    assert list(found.offsets) == [BASE + index for index in range(5)]
    assert list(found.flags) == [0, 1, 0, 2, 8]
    assert list(found.timestamps_ms) == [CREATED_MS, CREATED_MS, 0, (1 << 63) - 1, CREATED_MS + 1]


# Names, offsets and sizes as the specification lists them, counted by hand.
FIELDS: dict[str, tuple[Layout[tuple[object, ...]], list[tuple[int, int]]]] = {
    "manifest header": (keratin.MANIFEST_HEADER, [(0, 8), (8, 2), (10, 2), (12, 4), (16, 4)]),  # type: ignore[dict-item]
    "manifest": (
        keratin.MANIFEST,  # type: ignore[dict-item]
        [(0, 8), (8, 8), (16, 4), (20, 2), (22, 2), (24, 8), (32, 8), (40, 4)],
    ),
    "manifest segment": (keratin.MANIFEST_SEGMENT, [(0, 8), (8, 8), (16, 8), (24, 8)]),  # type: ignore[dict-item]
    "log header": (
        keratin.LOG_HEADER,  # type: ignore[dict-item]
        [(0, 8), (8, 2), (10, 2), (12, 4), (16, 8), (24, 8), (32, 32), (64, 4)],
    ),
    "record": (
        keratin.KERATIN_RECORD,  # type: ignore[dict-item]
        [(0, 2), (2, 2), (4, 2), (6, 2), (8, 4), (12, 4), (16, 8), (24, 8)],
    ),
    "index header": (
        keratin.INDEX_HEADER,  # type: ignore[dict-item]
        [(0, 8), (8, 2), (10, 2), (12, 4), (16, 8), (24, 8), (32, 2), (34, 2), (36, 32), (68, 4)],
    ),
    "index entry": (keratin.INDEX_ENTRY, [(0, 4), (4, 4), (8, 8)]),  # type: ignore[dict-item]
    "time entry": (keratin.TIME_ENTRY, [(0, 8), (8, 4), (12, 4)]),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_stand_where_the_specification_has_them(name: str) -> None:
    layout, places = FIELDS[name]
    assert [(field.offset, field.size) for field in layout.fields] == places


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("manifest.bin", {0: b"KERATIN\0", 8: b"\0\1", 10: b"\0\0", 12: b"\0\0\0\x14"}),
        ("manifest-start.bin", {10: b"\0\1", 128: (42).to_bytes(8, "big")}),
        ("segment.log", {0: b"KLOG\0\0\0\0", 8: b"\0\1\0\0", 12: b"\0\0\0\x44", 68: b"KR\0\1"}),
        ("segment.idx", {0: b"KIDX\0\0\0\0", 12: b"\0\0\0\x48", 32: b"\0\x10", 72: bytes(8)}),
        ("segment.tidx", {0: b"KTIX\0\0\0\0", 12: b"\0\0\0\x48", 32: b"\0\x10"}),
        ("segment.producers", {0: b"KPROD\0\0\0", 12: b"\0\0\0\x20", 24: b"\0\0\0\2"}),
        ("durable_end", {0: b"KDUREND\0", 8: b"\0\1\0\0", 12: bytes(range(16))}),
        ("headers.bin", {0: b"\1\3", 2: b"\0\0\0\3key"}),
    ],
)
def test_golden_bytes_are_big_endian_and_in_place(name: str, places: dict[int, bytes]) -> None:
    data = golden(name)
    for offset, expected in places.items():
        assert data[offset : offset + len(expected)] == expected


def test_the_page_has_the_tables_of_the_headers_block() -> None:
    layouts = [
        value
        for name, value in vars(blocks).items()
        if isinstance(value, Layout) and not name.startswith("KERATIN_")
    ]
    page = PAGE.read_text()
    assert len(layouts) == 6
    for layout in layouts:
        assert layout.markdown() in page, f"put this into the page:\n{layout.markdown()}"


def test_the_page_tells_every_record_flag() -> None:
    page = PAGE.read_text()
    for number, flag in enumerate(RecordFlags):
        assert flag.value == 1 << number
        assert f"| {number} | `{flag.name}` |" in page
