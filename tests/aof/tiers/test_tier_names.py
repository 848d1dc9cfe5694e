"""Names of warm files and keys of objects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.aof.tiers.names import SegmentKey, WarmName, manifest_prefix, segments_prefix
from lakebed.aof.tiers.object_store import check_key, check_prefix

u64 = st.integers(0, 2**64 - 1)


@given(u64, u64, u64)
def test_names_read_back(first: int, second: int, third: int) -> None:
    warm = WarmName(first, second, third)
    assert WarmName.parse(str(warm)) == warm
    key = SegmentKey(first, second, third)
    assert SegmentKey.parse(key.below("aof2"), prefix="aof2") == key
    check_key(key.below("aof2"))
    assert key.below("aof2").startswith(segments_prefix("aof2", first))
    check_prefix(segments_prefix("aof2", first))
    check_prefix(manifest_prefix("aof2", first))


def test_names_are_as_the_format_says() -> None:
    assert str(WarmName(3, 64, 9)) == (
        "00000000000000000003_00000000000000000064_00000000000000000009.zst"
    )
    key = SegmentKey(0xFF, 3, 1_700_000_000_000_000_000)
    assert key.below("aof2") == (
        "aof2/00000000000000ff/segment-00000000000000000003-1700000000000000000.zst"
    )
    assert manifest_prefix("aof2", 0xFF) == "aof2/manifest/00000000000000ff/"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.zst",
        f"{1:020}_{2:020}.zst",
        f"{1:020}_{2:020}_{3:020}.zst.1.tmp",
        f"{2**64:020}_{2:020}_{3:020}.zst",
    ],
)
def test_other_files_are_no_warm_files(name: str) -> None:
    assert WarmName.parse(name) is None


@pytest.mark.parametrize(
    "key",
    [
        "aof2/00000000000000ff/segment-3-17.zst",
        f"aof2/00000000000000FF/segment-{3:020}-17.zst",
        f"other/00000000000000ff/segment-{3:020}-17.zst",
        f"00000000000000ff/segment-{3:020}-17.zst",
        f"aof2/00000000000000ff/segment-{3:020}-017.zst",
        f"aof2/00000000000000ff/segment-{3:020}-{2**64}.zst",
        f"aof2/manifest/00000000000000ff/{3:020}.mlog",
    ],
)
def test_other_objects_are_no_segments(key: str) -> None:
    assert SegmentKey.parse(key, prefix="aof2") is None
