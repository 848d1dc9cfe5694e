"""`lakebed manifest` on manifest logs that are damaged: it is told, in place, and stops nothing."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakebed.aof.manifest.format import CHUNK_HEADER, RECORD_HEADER, SNAPSHOT_HEADER
from lakebed.aof.manifest.snapshot import Snapshot, decode_snapshot, encode_snapshot
from lakebed.cli.failure import BUG_EXIT_CODE
from lakebed.kernels import crc64nvme
from lakebed.store.store import Store
from tests.cli.in_process import Done, Run, runner
from tests.cli.manifest_stores import (
    CONFIG,
    UNCOMMITTED,
    change,
    chunk_files,
    contents,
    flip,
    folder_of,
    segment_files,
    snapshot_files,
    write_chunks,
    write_segment,
    write_segments,
)

pytestmark = pytest.mark.sweep

COMMANDS = (
    ["inspect", "orders"],
    ["verify", "orders"],
    ["history", "orders", "0"],
    ["state", "orders"],
    ["state", "orders", "--as-of", "0:120"],
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    return runner(root, monkeypatch, capsysbinary)


def verified(run: Run, exit_code: int = 65) -> Any:
    """What `verify` says, and that it changed nothing."""
    done = run("manifest", "verify", "orders", as_json=True)
    assert (done.exit_code, done.err) == (exit_code, b""), done
    document = json.loads(done.out)
    assert document["ok"] is (exit_code == 0)
    return document


def problems(run: Run) -> list[str]:
    return [problem["problem"] for problem in verified(run)["problems"]]


def marked(done: Done) -> list[str]:
    """The lines that say what is wrong."""
    assert (done.exit_code, done.err) == (65, b"")
    return [line for line in done.out.decode().splitlines() if "!!" in line]


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
    assert any("it was about 0, 1" in line for line in doubtful)
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
def test_a_chunk_that_was_cut_is_torn_if_open_and_corrupt_if_sealed(
    run: Run, root: Path, length: int
) -> None:
    write_chunks(root, until=1)
    sealed, last = chunk_files(root)
    for path, state in ((last, "torn"), (sealed, "corrupt")):
        whole = path.read_bytes()
        path.write_bytes(whole[:length])
        wanted = "torn" if length < CHUNK_HEADER.size else state
        document = json.loads(run("manifest", "inspect", "orders", as_json=True).out)
        (chunk,) = [one for one in document["chunks"] if one["path"] == str(path)]
        assert (chunk["state"], chunk["file_bytes"]) == (wanted, length)
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
        "problem": "missing, with all up to number 2",
    }  # fmt: skip
    summary, row = marked(run("manifest", "inspect", "orders", "--type", "SnapshotMarker"))
    assert summary.split()[:2] == ["1", "missing"]
    assert row.startswith("1:0 ")
    assert "missing" in marked(run("manifest", "state", "orders", "--as-of", "3:64"))[0]
    done = run("manifest", "state", "orders", "--as-of", "1:64")
    assert (done.exit_code, done.error_line()) == (66, f"orders: {path}: missing")


def test_the_first_chunks_may_go_only_behind_a_snapshot(run: Run, root: Path) -> None:
    write_chunks(root, until=4)
    kept = {path: path.read_bytes() for path in snapshot_files(root)}
    for path in chunk_files(root)[:2]:
        path.unlink()
    assert verified(run, 0)["snapshots_compared"] == 0
    for path in kept:
        path.unlink()
    found = problems(run)
    assert "the chunks before 2 are not there, but a replay begins in chunk 0" in found
    assert "missing, but a marker names it" in found
    for path, data in kept.items():
        path.write_bytes(data)
    chunk_files(root)[0].unlink()
    assert problems(run) == ["fewer than 2 sealed chunks are kept"]


def test_all_chunks_lost_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=1)
    for path in chunk_files(root):
        path.unlink()
    assert "there are snapshots, but no chunk" in problems(run)
    assert "missing" in marked(run("manifest", "state", "orders"))[0]
    (step,) = run("manifest", "history", "orders", "0", as_json=True).document()["steps"]
    assert step["what"].endswith("has it: sealed, tiers 0")


def test_a_chunk_in_anothers_place_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=3)
    first, second, *_ = chunk_files(root)
    shutil.copyfile(first, second)
    assert any("not this chunk's" in problem for problem in problems(run))


def test_a_chunk_that_was_never_sealed_with_others_behind_it_is_told(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[1]
    change(path, CHUNK_HEADER.offset_of("flags"), bytes(8))
    assert problems(run) == ["is not sealed, although there are chunks behind it"]


def test_records_out_of_order_are_told(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    path = chunk_files(root)[1]
    change(path, CHUNK_HEADER.offset_of("base_record"), (7).to_bytes(8, "little"))
    assert any(one.startswith("begins with record 7, but ") for one in problems(run))


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
    assert problem["problem"].endswith("ms before the last")


def test_flags_that_are_not_known_are_noted(run: Run, root: Path) -> None:
    write_segments(root, 1)
    (path,) = chunk_files(root)
    change(path, CHUNK_HEADER.offset_of("flags"), b"\x10")
    assert verified(run, 0)["notes"] == [f"{path}: flags that are not known: 0x10"]


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
    assert "wrong checksum" in row
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
    assert "differs from the records before it about segments 1" in found
    assert "says coordinator_watermark 99, the records before it say 2" in found


@pytest.mark.parametrize("offset", [-8, 8, 100_000])
def test_a_snapshot_of_a_place_that_is_none_is_told(run: Run, root: Path, offset: int) -> None:
    write_segments(root, 2)
    (path,) = snapshot_files(root)
    snapshot = decode_snapshot(path.read_bytes())
    position = snapshot.position._replace(offset=snapshot.position.offset + offset)
    path.write_bytes(encode_snapshot(Snapshot(snapshot.snapshot_id, position, snapshot.index)))
    found = problems(run)
    assert f"is as of {position}, which the log does not have" in found
    assert any("names 0:392 for a snapshot that is as of" in one for one in found)


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


# Other files.


def test_a_damaged_log_json_is_told_and_the_only_manifest_log_is_used(run: Run, root: Path) -> None:
    write_segments(root, 1)
    stream = folder_of(root).name
    path = root / "aof" / "orders" / "log.json"
    path.write_text("{")
    for name in ("orders", stream):
        done = run("manifest", "inspect", name, as_json=True)
        assert done.exit_code == 65
        document = json.loads(done.out)
        assert (document["stream_id"], document["manifest_log_enabled"]) == (stream, None)
        assert len(document["records"]) == 4
    assert str(path) in marked(run("manifest", "inspect", "orders"))[0]
    assert verified(run)["problems"][0]["path"] == str(path)
    assert run("manifest", "state", "orders").exit_code == 65
    path.unlink()
    assert problems(run) == ["missing"]
    (folder_of(root).parent / ("0" * 16)).mkdir()
    done = run("manifest", "verify", "orders")
    assert (done.exit_code, done.out) == (65, b"")
    assert "does not tell which manifest log" in done.error_line()


def test_a_damaged_log_json_without_a_manifest_log_is_one_line(run: Run, root: Path) -> None:
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")
    (root / "aof" / "orders" / "log.json").write_text("{}")
    for command in COMMANDS:
        done = run("manifest", *command)
        assert (done.exit_code, done.out) == (65, b"")
        assert "log.json: not what says which log this is" in done.error_line()


def test_a_newer_log_json_is_refused(run: Run, root: Path) -> None:
    write_segments(root, 1)
    path = root / "aof" / "orders" / "log.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    for command in COMMANDS:
        done = run("manifest", *command)
        assert (done.exit_code, done.out) == (65, b"")
        assert "log.json: log, expected 1, found 2" in done.error_line()


def test_strange_files_are_noted_and_left_alone(run: Run, root: Path) -> None:
    write_segments(root, 1)
    folder = folder_of(root)
    for name in ("notes.txt", "1.mlog", "a\nb"):
        (folder / name).touch()
    (folder.parent / "feedfeedfeedfeed").mkdir()
    (folder / f"{9:020}.mlog.tmp").touch()
    document = run("manifest", "inspect", "orders", as_json=True).document()
    assert document["ignored_files"] == ["1.mlog", "a\nb", "notes.txt"]
    notes = verified(run, 0)["notes"]
    assert len(notes) == 4
    assert all(note.endswith("is no part of this manifest log") for note in notes)
    assert "ignored: a\\nb" in run("manifest", "inspect", "orders").lines()


def test_a_chunk_with_an_absurd_number_costs_nothing(run: Run, root: Path) -> None:
    write_segments(root, 1)
    shutil.copyfile(chunk_files(root)[0], folder_of(root) / f"{'9' * 20}.mlog")
    found = problems(run)
    assert any(one.startswith("missing, with all up to number 9999") for one in found)
    for command in COMMANDS:
        assert run("manifest", *command).exit_code == 65


# A manifest log that is behind the disk.


def test_a_manifest_log_that_is_switched_off_is_read_and_not_held_against_the_disk(
    run: Run, root: Path
) -> None:
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segment(log)
        write_segment(log)
        log.set_manifest_log_enabled(False)
        write_segment(log)
    segment_files(root)[0].unlink()
    notes = verified(run, 0)["notes"]
    assert notes[0] == "switched off: nothing is recorded at present"
    assert "segment 2: is on disk, and not recorded yet" in notes
    assert any("segment 0 should be there" in note for note in notes)
    assert run("manifest", "state", "orders").lines()[0].split(", ")[1] == "switched off"


def test_what_is_not_committed_yet_is_noted(run: Run, root: Path) -> None:
    with Store.open(root, config=UNCOMMITTED) as store:
        log = store.log("orders")
        write_segment(log)
        assert log.manifest is not None
        log.manifest.commit()
        write_segment(log)
        log.append_record(b"last")
        log.flush()
        notes = verified(run, 0)["notes"]
        assert "segment 1: is on disk, and not recorded yet" in notes
        assert "segment 2: is on disk, and not recorded yet" in notes
        image = root.with_name("after a crash")
        shutil.copytree(root, image)
    assert verified(run, 0)["notes"] == []
    shutil.rmtree(root)
    image.rename(root)
    assert "segment 1: is on disk, and not recorded yet" in verified(run, 0)["notes"]
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")
    document = verified(run, 0)
    assert (document["notes"], document["segments_compared"]) == ([], 3)


# Segments that are not what was recorded.


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_segment_file_that_is_gone_is_told(run: Run, root: Path, number: int) -> None:
    write_segments(root, 3)
    segment_files(root)[number].unlink()
    assert problems(run) == [f"segment {number} should be there, and is not"]


def test_a_segment_in_the_archive_is_noted(run: Run, root: Path) -> None:
    write_segments(root, 2)
    path = segment_files(root)[0]
    path.rename(root / "aof" / "orders" / "archive" / f"{0:020}_{5:020}.seg")
    assert verified(run, 0)["notes"] == ["segment 0: is in the archive, which is not recorded yet"]


def test_a_footer_that_is_not_as_recorded_is_told(run: Run, root: Path) -> None:
    write_segments(root, 2)
    first, second, _ = segment_files(root)
    data = first.read_bytes()
    other = second.read_bytes()
    flip(first, len(data) - 50)
    (problem,) = verified(run)["problems"]
    assert problem["path"] == str(first)
    assert (
        "should be sealed, as the manifest log says: the footer's checksum is wrong"
        in (problem["problem"])
    )
    first.write_bytes(data[:-96] + bytes(96))
    assert problems(run) == ["should be sealed, as the manifest log says: it has no footer"]
    first.write_bytes(data[:-96] + other[-96:])
    assert "its footer is of segment 1" in problems(run)[0]
    first.write_bytes(b"short")
    assert "it is too short: 5 bytes" in problems(run)[0]


def test_a_segment_that_was_replaced_is_told(run: Run, root: Path) -> None:
    write_segments(root, 1)
    with Store.open(root.with_name("other"), config=CONFIG) as store:
        log = store.log("orders")
        log.set_coordinator_watermark(9)
        write_segment(log, b"other, and longer", ext_id=3)
    shutil.copyfile(segment_files(root.with_name("other"))[0], segment_files(root)[0])
    found = problems(run)
    assert "its durable_bytes is 112, the manifest log says 96" in found
    assert "its ext_id is 3, the manifest log says 0" in found
    assert "its watermark is 9, the manifest log says 1" in found
    assert any(one.startswith("its checksum is ") for one in found)


# All of it at once.


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
