"""`lakebed manifest` on damaged chunks and snapshots: it is told, in place, and stops nothing."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from lakebed.aof.manifest.format import CHUNK_HEADER, RECORD_HEADER, SNAPSHOT_HEADER
from lakebed.aof.manifest.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.cli.failure import BUG_EXIT_CODE
from lakebed.kernels import crc64nvme
from tests.cli.in_process import Run
from tests.cli.manifest_stores import (
    COMMANDS,
    change,
    chunk_files,
    contents,
    flip,
    folder_of,
    marked,
    problems,
    snapshot_files,
    verified,
    write_chunks,
    write_segments,
)

pytestmark = pytest.mark.thorough


# Chunks.


def test_a_flipped_byte_in_a_sealed_chunk_is_told_everywhere(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[0]
    records = run("manifest", "inspect", "orders", "--chunk", "0", as_json=True).document()[
        "records"
    ]
    hit = records[10]
    flip(path, hit["offset"] + RECORD_HEADER.size + 20)
    before = contents(root)

    (problem,) = [one for one in verified(run)["problems"] if one["offset"] is not None]
    assert (problem["path"], problem["offset"]) == (str(path), hit["offset"])
    assert problem["verdict"] == "corrupt"

    document = json.loads(run("manifest", "inspect", "orders", "--chunk", "0", as_json=True).out)
    assert document["chunks"][0]["state"] == "corrupt"
    assert document["chunks"][0]["crc_ok"] is False
    assert [one["position"] for one in document["damages"]] == [hit["position"]]
    found = [one["position"] for one in document["records"]]
    assert found == [one["position"] for one in records if one is not hit], "the others are shown"

    summary, row = marked(run("manifest", "inspect", "orders"))
    assert summary.split()[:2] == ["0", "corrupt"]
    assert row.startswith(f"{hit['position']} ")
    assert "!! corrupt: the chunk's checksum does not match" in row
    assert hit["position"] in marked(run("manifest", "history", "orders", "1"))[0]
    # The snapshot at the end knows better than the chunk.
    assert run("manifest", "state", "orders").exit_code == 0
    doubtful = marked(run("manifest", "state", "orders", "--as-of", "1:64"))
    assert any("it was about segments 0, 1" in line for line in doubtful)
    assert contents(root) == before


def test_a_changed_record_header_is_damage_of_the_chunk_as_a_whole(run: Run, root: Path) -> None:
    write_chunks(root, until=1)
    path = chunk_files(root)[0]
    time = 64 + RECORD_HEADER.offset_of("timestamp_ms")
    change(path, time, b"\xff" * 8)  # no moment that a calendar has
    document = json.loads(run("manifest", "inspect", "orders", as_json=True).out)
    assert document["damages"][0]["position"] == "0:0"
    assert document["records"][0]["time"] is None
    assert document["records"][0]["time_ms"] == (1 << 64) - 1
    for command in COMMANDS:
        done = run("manifest", *command)
        assert (done.exit_code, done.err) in ((65, b""), (0, b"")), command
    assert f"{(1 << 64) - 1} ms" in run("manifest", "inspect", "orders").out.decode()


@pytest.mark.parametrize("length", [0, 10, 64, 100, 3000])
def test_a_chunk_that_was_cut_is_torn_if_it_is_the_last_and_corrupt_if_not(
    run: Run, root: Path, length: int
) -> None:
    write_chunks(root, until=1)
    sealed, last = chunk_files(root)
    for path, state in ((last, "torn"), (sealed, "corrupt")):
        whole = path.read_bytes()
        path.write_bytes(whole[:length])
        document = json.loads(run("manifest", "inspect", "orders", as_json=True).out)
        (chunk,) = [one for one in document["chunks"] if one["path"] == str(path)]
        assert (chunk["state"], chunk["file_bytes"]) == (state, length)
        assert any(one["path"] == str(path) for one in verified(run)["problems"])
        path.write_bytes(whole)
    assert verified(run, 0)


def test_a_missing_chunk_is_told_in_its_place(run: Run, root: Path) -> None:
    write_chunks(root, until=4)
    chunk_files(root)[1].unlink()
    chunk_files(root)[1].unlink()
    path = folder_of(root) / f"{1:020}.mlog"
    (problem,) = verified(run)["problems"]
    assert problem == {
        "path": str(path), "offset": None, "length": 0, "verdict": "corrupt",
        "problem": "the chunks from this one to number 2 are missing",
    }  # fmt: skip
    summary, row = marked(run("manifest", "inspect", "orders", "--type", "SnapshotMarker"))
    assert summary.split()[:2] == ["1", "missing"]
    assert row.startswith("1:0 ")
    assert "missing" in marked(run("manifest", "state", "orders", "--as-of", "3:64"))[0]
    done = run("manifest", "state", "orders", "--as-of", "1:64")
    assert (done.exit_code, done.error_line()) == (66, f"orders: {path}: the chunk is missing")


def test_the_first_chunks_may_go_only_behind_a_snapshot(run: Run, root: Path) -> None:
    write_chunks(root, until=4)
    kept = {path: path.read_bytes() for path in snapshot_files(root)}
    for path in chunk_files(root)[:2]:
        path.unlink()
    assert verified(run, 0)["snapshots_compared"] == 0
    for path in kept:
        path.unlink()
    found = problems(run)
    assert "the chunks before 2 are missing, but a replay begins in chunk 0" in found
    assert "the snapshot is missing, although the last marker names it" in found
    for path, data in kept.items():
        path.write_bytes(data)
    chunk_files(root)[0].unlink()
    assert problems(run) == ["there are fewer than 2 sealed chunks"]


def test_all_chunks_lost_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=1)
    for path in chunk_files(root):
        path.unlink()
    assert "there are snapshots, but no chunks" in problems(run)
    assert "missing" in marked(run("manifest", "state", "orders"))[0]
    (step,) = run("manifest", "history", "orders", "0", as_json=True).document()["steps"]
    assert step["what"].endswith("has it: sealed, tiers 0")


def test_a_chunk_in_anothers_place_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=3)
    first, second, *_ = chunk_files(root)
    shutil.copyfile(first, second)
    assert any("wrong version, length or chunk index" in problem for problem in problems(run))


def test_a_chunk_that_was_never_sealed_with_others_behind_it_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[1]
    change(path, CHUNK_HEADER.offset_of("flags"), bytes(8))
    assert problems(run) == ["the chunk is not sealed, although chunks follow it"]


@pytest.mark.parametrize("field", ["magic", "chunk_crc64"])
def test_an_open_chunk_with_others_behind_it_that_is_not_whole_is_lost(
    run: Run, root: Path, field: str
) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[1]
    change(path, CHUNK_HEADER.offset_of("flags"), bytes(8))
    flip(path, CHUNK_HEADER.offset_of(field))
    (problem,) = verified(run)["problems"]
    assert (problem["path"], problem["verdict"]) == (str(path), "corrupt")
    for snapshot in snapshot_files(root):
        snapshot.unlink()
    doubtful = marked(run("manifest", "state", "orders"))
    assert any("chunk 1 is damaged and left out" in line for line in doubtful)


def test_records_out_of_order_are_told(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[1]
    change(path, CHUNK_HEADER.offset_of("base_record"), (7).to_bytes(8, "little"))
    assert any(
        one.startswith("the chunk begins with record number 7, expected ") for one in problems(run)
    )


def test_time_that_falls_is_told(run: Run, root: Path) -> None:
    write_segments(root, 2)
    (path,) = chunk_files(root)
    data = bytearray(path.read_bytes())
    time = 120 + RECORD_HEADER.offset_of("timestamp_ms")
    data[time : time + 8] = (1000).to_bytes(8, "little")
    header = CHUNK_HEADER.unpack(data)
    crc64 = crc64nvme(data[CHUNK_HEADER.size : header.committed_len])
    path.write_bytes(CHUNK_HEADER.pack(header._replace(chunk_crc64=crc64)) + data[64:])
    (problem, *_) = verified(run)["problems"]
    assert problem["offset"] == 120
    assert problem["problem"].endswith("ms before that of an earlier record")


def test_flags_that_are_not_known_are_noted(run: Run, root: Path) -> None:
    write_segments(root, 1)
    (path,) = chunk_files(root)
    change(path, CHUNK_HEADER.offset_of("flags"), b"\x10")
    assert verified(run, 0)["notes"] == [f"{path}: flags that are unknown: 0x10"]


@pytest.mark.parametrize("kind", ["chunk", "snapshot"])
def test_a_newer_version_is_told_and_nothing_of_it_is_guessed(
    run: Run, root: Path, kind: str
) -> None:
    write_chunks(root, until=1)
    if kind == "chunk":
        path = chunk_files(root)[1]
        change(path, CHUNK_HEADER.offset_of("version"), b"\x09")
    else:
        (path,) = snapshot_files(root)
        data = path.read_bytes()
        header = SNAPSHOT_HEADER.unpack(data)._replace(version=9, crc64=0)
        crc64 = crc64nvme(data[SNAPSHOT_HEADER.size :], crc64nvme(SNAPSHOT_HEADER.pack(header)))
        path.write_bytes(SNAPSHOT_HEADER.pack(header._replace(crc64=crc64)) + data[64:])
    problem = next(one for one in verified(run)["problems"] if one["path"] == str(path))
    assert "found 9" in problem["problem"]
    assert "newer" in run("manifest", "inspect", "orders").out.decode()
    done = run("manifest", "state", "orders")
    assert (done.exit_code, done.out) == (65, b"")
    assert str(path) in done.error_line()


# Snapshots.


def test_a_damaged_snapshot_is_told_and_passed_over(run: Run, root: Path) -> None:
    write_chunks(root, until=1, snapshot_at=0)
    expected = run("manifest", "state", "orders", as_json=True).document()["segments"]
    path = snapshot_files(root)[-1]
    flip(path, 100)
    (problem,) = verified(run)["problems"]
    assert (problem["path"], problem["verdict"]) == (str(path), "corrupt")
    (row,) = marked(run("manifest", "inspect", "orders"))
    assert "the snapshot's checksum is wrong" in row
    done = run("manifest", "state", "orders", as_json=True)
    assert done.exit_code == 65
    assert json.loads(done.out)["segments"] == expected
    path.write_bytes(path.read_bytes()[:90])
    assert verified(run)["problems"][0]["verdict"] == "torn"


def test_a_snapshot_that_says_something_else_than_the_records_is_told(run: Run, root: Path) -> None:
    write_segments(root, 2)
    (path,) = snapshot_files(root)
    snapshot = decode_snapshot(path.read_bytes())
    index = snapshot.index
    index._states[1] = index._states[1]._replace(durable_bytes=97)
    index.coordinator_watermark = 99
    path.write_bytes(encode_snapshot(Snapshot(snapshot.snapshot_id, snapshot.position, index)))
    found = problems(run)
    assert "the snapshot differs from the records before it in segments 1" in found
    assert "the snapshot has coordinator_watermark 99, the records before it 2" in found


@pytest.mark.parametrize("offset", [-8, 8, 100_000])
def test_a_snapshot_of_a_place_that_is_none_is_told(run: Run, root: Path, offset: int) -> None:
    write_segments(root, 2)
    (path,) = snapshot_files(root)
    snapshot = decode_snapshot(path.read_bytes())
    position = snapshot.position._replace(offset=snapshot.position.offset + offset)
    path.write_bytes(encode_snapshot(Snapshot(snapshot.snapshot_id, position, snapshot.index)))
    found = problems(run)
    assert f"the snapshot is as of {position}, which is in no chunk" in found
    assert any("has position 0:392, but the snapshot is as of" in one for one in found)


def test_damage_of_the_open_chunk_is_not_held_against_the_snapshots_behind_it(
    run: Run, root: Path
) -> None:
    write_segments(root, 2)
    (path,) = chunk_files(root)
    flip(path, 200 + RECORD_HEADER.size)
    (problem,) = verified(run)["problems"]
    assert (problem["path"], problem["offset"]) == (str(path), 200)
    document = json.loads(run("manifest", "state", "orders", as_json=True).out)
    assert [one["segment_id"] for one in document["segments"]] == [0, 1, 2]


# All of it at once.


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_no_flipped_byte_anywhere_is_a_bug_or_goes_unseen(run: Run, root: Path, seed: int) -> None:
    write_chunks(root, until=1, snapshot_at=0)
    chance = random.Random(seed)
    lengths = {path: _used(path) for path in (*chunk_files(root), *snapshot_files(root))}
    for path, length in lengths.items():
        whole = path.read_bytes()
        for _ in range(4):
            offset = chance.randrange(length)
            flip(path, offset, 1 << chance.randrange(8))
            for command in COMMANDS:
                done = run("manifest", *command)
                assert done.exit_code != BUG_EXIT_CODE, (path, offset, command, done.err)
            is_covered = path.suffix == ".bin" or not _is_believed(offset)
            if is_covered:
                assert run("manifest", "verify", "orders").exit_code == 65, (path, offset)
            path.write_bytes(whole)
    assert verified(run, 0)


def _used(path: Path) -> int:
    data = path.read_bytes()
    return len(data) if path.suffix == ".bin" else CHUNK_HEADER.unpack(data).committed_len


def _is_believed(offset: int) -> bool:
    """Whether nothing tells that a field of the header has changed."""
    fields = (CHUNK_HEADER.field(name) for name in ("flags", "tail_offset"))
    return any(field.offset <= offset < field.offset + field.size for field in fields)
