"""`lakebed manifest` where other files do not fit: `log.json`, strange ones, and the segments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run
from tests.cli.manifest_stores import (
    COMMANDS,
    CONFIG,
    UNCOMMITTED,
    chunk_files,
    flip,
    folder_of,
    marked,
    problems,
    segment_files,
    verified,
    write_segment,
    write_segments,
)

pytestmark = pytest.mark.thorough


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
    assert "there are several manifest logs" in done.error_line()


def test_a_damaged_log_json_without_a_manifest_log_is_one_line(run: Run, root: Path) -> None:
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")
    (root / "aof" / "orders" / "log.json").write_text("{}")
    for command in COMMANDS:
        done = run("manifest", *command)
        assert (done.exit_code, done.out) == (65, b"")
        assert "log.json: the file is not a valid log.json" in done.error_line()


def test_a_newer_log_json_is_refused(run: Run, root: Path) -> None:
    write_segments(root, 1)
    path = root / "aof" / "orders" / "log.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    for command in COMMANDS:
        done = run("manifest", *command)
        assert (done.exit_code, done.out) == (65, b"")
        assert "log.json: the log was written by a newer version of Lakebed" in done.error_line()
        assert "expected 1, found 2" in done.error_line()


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
    assert all(note.endswith("not part of this manifest log") for note in notes)
    assert "ignored: a\\nb" in run("manifest", "inspect", "orders").lines()


def test_a_chunk_with_an_absurd_number_costs_nothing(run: Run, root: Path) -> None:
    write_segments(root, 1)
    shutil.copyfile(chunk_files(root)[0], folder_of(root) / f"{'9' * 20}.mlog")
    found = problems(run)
    assert any(one.startswith("the chunks from this one to number 9999") for one in found)
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
    assert notes[0] == "the manifest log is switched off: nothing is recorded"
    assert "segment 2: is on disk, but not recorded yet" in notes
    assert any("the file of segment 0 is missing" in note for note in notes)
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
        assert "segment 1: is on disk, but not recorded yet" in notes
        assert "segment 2: is on disk, but not recorded yet" in notes
        image = root.with_name("after a crash")
        shutil.copytree(root, image, ignore=shutil.ignore_patterns("lakebed.sock"))
    assert verified(run, 0)["notes"] == []
    shutil.rmtree(root)
    image.rename(root)
    assert "segment 1: is on disk, but not recorded yet" in verified(run, 0)["notes"]
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")
    document = verified(run, 0)
    assert (document["notes"], document["segments_compared"]) == ([], 3)


# Segments that are not what was recorded.


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_segment_file_that_is_gone_is_told(run: Run, root: Path, number: int) -> None:
    write_segments(root, 3)
    segment_files(root)[number].unlink()
    assert problems(run) == [f"the file of segment {number} is missing"]


def test_a_segment_in_the_archive_is_noted(run: Run, root: Path) -> None:
    write_segments(root, 2)
    path = segment_files(root)[0]
    path.rename(root / "aof" / "orders" / "archive" / f"{0:020}_{5:020}.seg")
    assert verified(run, 0)["notes"] == ["segment 0: was archived, which is not recorded yet"]


def test_a_footer_that_is_not_as_recorded_is_told(run: Run, root: Path) -> None:
    write_segments(root, 2)
    first, second, _ = segment_files(root)
    data = first.read_bytes()
    other = second.read_bytes()
    flip(first, len(data) - 50)
    (problem,) = verified(run)["problems"]
    assert problem["path"] == str(first)
    assert (
        "the segment is sealed in the manifest log, but not on disk: the footer's checksum is wrong"
        in (problem["problem"])
    )
    first.write_bytes(data[:-96] + bytes(96))
    assert problems(run) == [
        "the segment is sealed in the manifest log, but not on disk: it has no footer"
    ]
    first.write_bytes(data[:-96] + other[-96:])
    assert "its footer is that of segment 1" in problems(run)[0]
    first.write_bytes(b"short")
    assert "it is too short (5 bytes)" in problems(run)[0]


def test_a_segment_that_was_replaced_is_told(run: Run, root: Path) -> None:
    write_segments(root, 1)
    with Store.open(root.with_name("other"), config=CONFIG) as store:
        log = store.log("orders")
        log.set_coordinator_watermark(9)
        write_segment(log, b"other, and longer", ext_id=3)
    shutil.copyfile(segment_files(root.with_name("other"))[0], segment_files(root)[0])
    found = problems(run)
    assert "its durable_bytes is 112, but 96 in the manifest log" in found
    assert "its ext_id is 3, but 0 in the manifest log" in found
    assert "its watermark is 9, but 1 in the manifest log" in found
    assert any(one.startswith("its checksum is ") for one in found)
