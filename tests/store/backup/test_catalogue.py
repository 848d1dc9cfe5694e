"""The catalogue of a backup as bytes, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.base.errors import Corrupt, DataError, UnknownVersion
from lakebed.kernels.checksum import blake3
from lakebed.store.backup.catalogue import (
    BackedFile,
    Snapshot,
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
    is_safe_path,
    snapshot_id_of,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "backup" / "v1" / "snapshot.json"
ONE, TWO = blake3(b"one").hex(), blake3(b"two").hex()
SNAPSHOT = Snapshot(
    snapshot_id="20260102T030405678Z-00c0ffee",
    created_ms=1_767_323_045_000,
    finished_ms=1_767_323_046_000,
    program="0.1.0",
    part_bytes=3,
    files=(
        BackedFile(path="aof/orders/segments/a.seg", size=9, stored_bytes=5, parts=(ONE, TWO)),
        BackedFile(path="store.json", size=3, stored_bytes=3, parts=(ONE,), seal=TWO),
        BackedFile(path="topics/empty", size=0, stored_bytes=0, parts=()),
    ),
    external=("log orders: s3://elsewhere/prefix",),
    left_out=("notes.txt",),
    problems=("the log orders: segments are missing: 3",),
)
BAD_PARTS = "invalid sizes or parts for the file a"


def test_the_bytes_of_a_catalogue_do_not_change() -> None:
    assert encode_snapshot(SNAPSHOT) == GOLDEN.read_bytes()
    assert decode_snapshot(GOLDEN.read_bytes(), path="") == SNAPSHOT


def test_ids_sort_by_time_also_within_a_second_or_if_the_clock_was_set_back() -> None:
    first = snapshot_id_of(1_767_323_045_678, "00c0ffee", last=None)
    assert first == SNAPSHOT.snapshot_id
    later = snapshot_id_of(1_767_323_045_679, "00000000", last=first)
    assert later == "20260102T030405679Z-00000000"
    same = snapshot_id_of(1_767_323_045_678, "00000000", last=later)
    assert same == "20260102T030405680Z-00000000"
    back = snapshot_id_of(0, "00000000", last="20260102T030459999Z-ffffffff")
    assert back == "20260102T030500000Z-00000000"


def test_what_a_snapshot_needs_is_told_with_its_sizes() -> None:
    assert SNAPSHOT.parts() == {ONE: 3, TWO: 2}
    assert SNAPSHOT.size == 8


def test_no_truncation_and_no_flipped_bit_is_taken_for_one() -> None:
    golden = GOLDEN.read_bytes()
    for length in range(len(golden) - 1):
        with pytest.raises(DataError):
            decode_snapshot(golden[:length], path="")
    for index in range(len(golden) - 1):
        flipped = bytearray(golden)
        flipped[index] ^= 1
        try:
            assert decode_snapshot(bytes(flipped), path="") == SNAPSHOT
        except DataError:
            continue


def test_a_newer_version_is_refused_by_its_number() -> None:
    newer = GOLDEN.read_bytes().replace(b'"version":1', b'"version":2')
    with pytest.raises(
        UnknownVersion,
        match=r"v: the backup has an unsupported version: use the version of Lakebed that took it, "
        r"expected 1, found 2",
    ):
        decode_snapshot(newer, path="v")
    with pytest.raises(UnknownVersion):
        decode_snapshot(b'{"format":"lakebed backup snapshot","version":7}', path="v")


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a/", "a\0b", "a\nb", "a\\b",
     "x" * 256, "/".join(["y" * 200] * 30), "a\u202eb"],
)  # fmt: skip
def test_a_path_that_could_leave_the_root_is_refused(path: str) -> None:
    assert not is_safe_path(path)
    hostile = BackedFile(path=path, size=0, stored_bytes=0, parts=())
    with pytest.raises(Corrupt, match="an unsafe path"):
        check_snapshot(msgspec.structs.replace(SNAPSHOT, files=(hostile,)), path="")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"snapshot_id": "../../x"}, "invalid snapshot id"),
        ({"part_bytes": 0}, "invalid part size, 0 bytes"),
        ({"files": (SNAPSHOT.files[0], SNAPSHOT.files[0])}, "has the file .* twice"),
        ({"files": (BackedFile(path="a", size=1, stored_bytes=2, parts=(ONE,)),)}, BAD_PARTS),
        ({"files": (BackedFile(path="a", size=3, stored_bytes=3, parts=()),)}, BAD_PARTS),
        ({"files": (BackedFile(path="a", size=3, stored_bytes=3, parts=("../x",)),)}, BAD_PARTS),
        ({"files": (BackedFile(path="a", size=-1, stored_bytes=-1, parts=()),)}, BAD_PARTS),
        (
            {"files": (BackedFile(path="a", size=0, stored_bytes=0, parts=()),
                       BackedFile(path="a/b/c", size=0, stored_bytes=0, parts=()))},
            "as a file and as a folder",
        ),
    ],
)  # fmt: skip
def test_a_catalogue_that_cannot_be_carried_out_is_refused(
    changes: dict[str, object], match: str
) -> None:
    with pytest.raises(Corrupt, match=match):
        decode_snapshot(encode_snapshot(msgspec.structs.replace(SNAPSHOT, **changes)), path="")


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_with_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(DataError):
        decode_snapshot(data, path="")
