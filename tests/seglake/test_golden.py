"""Bytes of segments and manifests, written once and never again: a difference is a new version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.base.layout import Layout
from lakebed.seglake import format as seglake
from lakebed.seglake.manifest import decode, encode
from lakebed.seglake.model import Algorithm, State
from lakebed.seglake.segment_file import read_sealed, walk
from tests.seglake.manifest_samples import (
    BARE,
    FULL,
    MARKER,
    of_version_1,
    of_version_1_unnamed,
    of_version_2,
)
from tests.seglake.segment_samples import entries_of, file_of, open_segment, sealed_segment

GOLDEN = Path(__file__).parents[1] / "golden" / "seglake" / "v1"
PAGE = Path(__file__).parents[2] / "docs" / "formats" / "seglake.md"

CHUNKS = [b"first", b"\0", bytes(range(256)), b"first"]
MANY = [
    number.to_bytes(2, "little") for number in range(150)
]  # the filter is larger than its least


def contents() -> dict[str, bytes]:
    """What this version writes, by the name of the golden file."""
    return {
        "open.seg": open_segment(CHUNKS),
        "sealed.seg": sealed_segment(CHUNKS),
        "many.seg": sealed_segment(MANY),
        "empty.seg": sealed_segment([]),
        "manifest-3.bin": encode(FULL),
        "manifest-3-bare.bin": encode(BARE),
        "manifest-3-marker.bin": encode(MARKER),
        "manifest-2.bin": of_version_2(BARE),
        "manifest-1.bin": of_version_1(BARE),
        "manifest-1-unnamed.bin": of_version_1_unnamed(BARE),
    }


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", contents())
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert contents()[name] == golden(name)


def test_no_golden_file_is_left_out() -> None:
    assert sorted(contents()) == sorted(path.name for path in GOLDEN.iterdir())


@pytest.mark.parametrize(
    ("name", "chunks"), [("sealed.seg", CHUNKS), ("many.seg", MANY), ("empty.seg", [])]
)
def test_golden_segments_are_read(name: str, chunks: list[bytes]) -> None:
    file = file_of(golden(name))
    segment = read_sealed(file)
    assert segment.entries == entries_of(chunks)
    assert all(segment.has(entry.hash) for entry in segment.entries)
    found = walk(file, size=segment.data_end, confirmed_end=segment.data_end)
    assert [entry for entry, _ in found.entries] == segment.entries
    assert found.damage == []


def test_the_golden_open_segment_is_walked() -> None:
    data = golden("open.seg")
    found = walk(file_of(data), size=len(data))
    assert [entry for entry, _ in found.entries] == entries_of(CHUNKS)
    assert (found.end, found.torn, found.damage) == (len(data), False, [])


def test_golden_manifests_are_read() -> None:
    unnamed = BARE._replace(bucket="", key="")
    expected = {
        "manifest-3.bin": FULL,
        "manifest-3-bare.bin": BARE,
        "manifest-3-marker.bin": MARKER,
        "manifest-2.bin": BARE,
        "manifest-1.bin": BARE,
        "manifest-1-unnamed.bin": unnamed,
    }
    assert {name: decode(golden(name), path=name) for name in expected} == expected


# Offsets and sizes as the format has them, counted by hand.
FIELDS: dict[str, list[tuple[int, int]]] = {
    "SEGMENT_HEADER": [(0, 4), (4, 4)],
    "CHUNK_HEADER": [(0, 32), (32, 4)],
    "INDEX_COUNT": [(0, 4)],
    "INDEX_ENTRY": [(0, 8), (8, 32)],
    "SEGMENT_FOOTER": [(0, 4), (4, 4), (8, 8), (16, 8), (24, 4), (28, 4), (32, 32)],
    "HASH_WORDS": [(0, 8), (8, 8)],
    "MANIFEST_HEADER": [(0, 4), (4, 4)],
    "TEXT_LENGTH": [(0, 4)],
    "MANIFEST_TOTALS": [(0, 8), (8, 4)],
    "CHUNK_START": [(0, 4), (4, 32), (36, 4)],
    "CHUNK_PLACE": [(0, 8), (8, 4)],
    "MANIFEST_END": [(0, 32)],
    "SECRET_KEY_FILE": [(0, 4), (4, 4), (8, 16), (24, 32), (56, 32)],
    "SEALED_SECRET": [(0, 4), (4, 16), (20, 12)],
}


def test_fields_stand_where_the_format_has_them() -> None:
    layouts = {name: value for name, value in vars(seglake).items() if isinstance(value, Layout)}
    found = {
        name: [(field.offset, field.size) for field in layout.fields]
        for name, layout in layouts.items()
    }
    assert found == FIELDS


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("open.seg", {0: b"SLGS\1\0\0\0", 40: b"\5\0\0\0first", 81: b"\1\0\0\0\0"}),
        (
            "empty.seg",
            {8: bytes(128 + 4), 140: b"KLGS\1\0\0\0\x08", 156: b"\x88\0", 164: b"\x80\0"},
        ),
        ("manifest-3.bin", {0: b"MLGS\3\0\0\0", 8: b"\6\0\0\0photos"}),
        ("manifest-2.bin", {0: b"MLGS\2\0\0\0", 8: b"\6\0\0\0photos"}),
        ("manifest-1.bin", {0: b"MLGS\1\0\0\0", 8: b"\6\0\0\0photos"}),
        ("manifest-1-unnamed.bin", {0: b"MLGS\1\0\0\0", 8: b"\x20\0\0\0" + b"0123456789abcdef"}),
    ],
)
def test_golden_bytes_are_little_endian_and_in_place(name: str, places: dict[int, bytes]) -> None:
    data = golden(name)
    for offset, expected in places.items():
        assert data[offset:][: len(expected)] == expected


def test_the_page_tells_every_field_of_the_metadata_and_its_values() -> None:
    page = PAGE.read_text(encoding="utf-8")
    data = golden("manifest-3.bin")
    fields = json.loads(data[data.index(b'{"') : -32])
    assert len(fields) == 16
    for name in fields:
        assert f"| `{name}` |" in page
    for value in (*State, *Algorithm):
        assert f"`{value.value}`" in page
