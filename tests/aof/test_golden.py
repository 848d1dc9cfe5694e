"""Bytes of version 2, written once and never again: a difference is a new version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.inspection import SegmentLayout, Verdict
from lakebed.aof.paths import SegmentName
from lakebed.aof.pointer import (
    decode_durable_end,
    decode_pointer,
    encode_durable_end,
    encode_pointer,
)
from lakebed.aof.segment_inspector import inspect_segment
from tests.aof.segments import interchange_segment, runtime_segment

GOLDEN = Path(__file__).parents[1] / "golden" / "aof2" / "v2"

NAME = SegmentName(3, 1_048_672, 1_700_000_000_123_456_789)
PAYLOADS = [b"a", b"12345678", bytes(range(256)), "réservoir".encode(), b"\x00"]
TIMESTAMPS = [1_700_000_000_200_000_000 + 333_333_333 * index for index in range(5)]
EXT_IDS = [9, 0, 0x0123456789ABCDEF, (1 << 64) - 1, 1]
SIZE = 64 << 10
END = 64 + 32 + 32 + 280 + 40 + 32

POINTER = {"segment_id": 3, "durable_bytes": END, "coordinator_watermark": 77}
DURABLE_END = {
    "boot_id": bytes(range(16)),
    "writer_epoch": 5,
    "segment_id": 4,
    "offset": 1024,
    "coordinator_watermark": 78,
}


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def contents() -> dict[str, bytes]:
    """What this version writes, by the name of the golden file."""
    segment = {"name": NAME, "size": SIZE, "timestamps": TIMESTAMPS, "ext_ids": EXT_IDS}
    return {
        "sealed.seg": runtime_segment(PAYLOADS, **segment),  # type: ignore[arg-type]
        "unsealed.seg": runtime_segment(PAYLOADS, is_sealed=False, **segment),  # type: ignore[arg-type]
        "interchange.seg": interchange_segment(PAYLOADS, name=NAME, record_flags=2),
        "current.sealed": encode_pointer(**POINTER),
        "durable_end": encode_durable_end(**DURABLE_END),  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("name", contents())
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert contents()[name] == golden(name)


@pytest.mark.parametrize(
    ("name", "layout", "is_sealed", "end"),
    [
        ("sealed.seg", SegmentLayout.RUNTIME, True, END),
        ("unsealed.seg", SegmentLayout.RUNTIME, False, END),
        ("interchange.seg", SegmentLayout.INTERCHANGE, True, 56 + 40 + 40 + 288 + 48 + 40),
    ],
)
def test_a_golden_segment_is_whole(
    name: str, layout: SegmentLayout, is_sealed: bool, end: int
) -> None:
    found = inspect_segment(golden(name), name=NAME)
    assert (found.layout, found.verdict, found.is_sealed) == (layout, Verdict.WHOLE, is_sealed)
    assert (found.record_count, found.end) == (5, end)
    assert not found.notes


def test_the_golden_pointer_and_durable_end_are_read() -> None:
    pointer = decode_pointer(golden("current.sealed"))
    assert {name: getattr(pointer, name) for name in POINTER} == POINTER
    end = decode_durable_end(golden("durable_end"))
    assert {name: getattr(end, name) for name in DURABLE_END} == DURABLE_END
