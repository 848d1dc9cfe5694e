"""Logs with a segment that was cut, or without their manifest folder: what is left is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import LINES, SEALED, make_root, write_segments

DAMAGED_EXIT_CODE = 65


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    return run


def segments(root: Path) -> list[Path]:
    return sorted((root / "aof" / "orders" / "segments").glob("*.seg"))


def cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.mark.parametrize("size", [0, 100, 160, 5000])
@pytest.mark.parametrize("number", [0, 2, SEALED - 1])
def test_the_records_around_a_segment_that_was_cut_are_printed(
    run: Run, root: Path, size: int, number: int
) -> None:
    path = segments(root)[number]
    cut(path, size)
    done = run("aof", "cat", "orders", "--skip-damage")
    assert done.exit_code == DAMAGED_EXIT_CODE, done.err
    assert path.name.encode() in done.err
    found = done.out.splitlines()
    assert found == [line for line in LINES.splitlines() if line in set(found)]
    assert len(found) > len(LINES.splitlines()) * (SEALED - 2) // SEALED
    assert run("aof", "cat", "orders").exit_code == DAMAGED_EXIT_CODE
    assert run("aof", "verify", "orders").exit_code == DAMAGED_EXIT_CODE
    assert run("aof", "repair", "orders").exit_code == 0
    again = run("aof", "cat", "orders", "--skip-damage")
    assert len(again.out.splitlines()) >= len(found)
    assert run("aof", "append", "orders", stdin=b"more\n").exit_code == 0
    assert run("aof", "cat", "orders", "--skip-damage").out.endswith(b"more\n")


@pytest.mark.parametrize("options", [[], ["--reverse"], ["--from-time", "2000-01-01"]])
def test_without_a_published_end_the_records_before_a_last_segment_that_was_cut_are_printed(
    run: Run, root: Path, options: list[str]
) -> None:
    path = segments(root)[-1]
    cut(path, 100)
    (root / "aof" / "orders" / "durable_end").unlink()
    done = run("aof", "cat", "orders", "--skip-damage", *options)
    assert done.exit_code == DAMAGED_EXIT_CODE, done.err
    assert path.name.encode() in done.err
    printed = done.out.splitlines()
    lines = LINES.splitlines()[: len(printed)]
    assert printed == (lines[::-1] if "--reverse" in options else lines)
    assert len(printed) > len(LINES.splitlines()) * (SEALED - 2) // SEALED


@pytest.mark.parametrize("number", [1, SEALED - 1])
@pytest.mark.parametrize("options", [[], ["--reverse"], ["--from-time", "2000-01-01"]])
def test_the_records_around_a_segment_that_is_missing_are_printed(
    run: Run, root: Path, number: int, options: list[str]
) -> None:
    segments(root)[number].unlink()
    done = run("aof", "cat", "orders", "--skip-damage", *options)
    assert done.exit_code == DAMAGED_EXIT_CODE, done.err
    assert b"missing" in done.err
    printed = done.out.splitlines()
    lines = [line for line in LINES.splitlines() if line in set(printed)]
    assert printed == (lines[::-1] if "--reverse" in options else lines)
    assert len(printed) > len(LINES.splitlines()) * (SEALED - 2) // SEALED
    assert run("aof", "cat", "orders", *options).exit_code == DAMAGED_EXIT_CODE


@pytest.mark.parametrize("what", ["manifest", "manifest/*"])
def test_without_its_manifest_folder_a_log_is_read_appended_to_and_repaired(
    run: Run, root: Path, what: str
) -> None:
    for folder in (root / "aof" / "orders").glob(what):
        shutil.rmtree(folder)
    assert run("aof", "cat", "orders").out == LINES
    assert run("aof", "verify", "orders").exit_code == 0
    assert run("aof", "repair", "orders").exit_code == 0
    assert run("aof", "append", "orders", stdin=b"more\n").exit_code == 0
    assert run("aof", "cat", "orders").out == LINES + b"more\n"
    assert run("aof", "verify", "orders").exit_code == 0
    assert run("manifest", "verify", "orders").exit_code == 0


def test_a_log_with_a_cut_segment_and_no_manifest_folder_is_repaired(run: Run, root: Path) -> None:
    cut(segments(root)[1], 100)
    shutil.rmtree(root / "aof" / "orders" / "manifest")
    assert run("aof", "repair", "orders").exit_code == 0
    assert run("aof", "append", "orders", stdin=b"more\n").exit_code == 0
    done = run("aof", "cat", "orders", "--skip-damage")
    assert done.out.endswith(b"more\n")
    assert len(done.out.splitlines()) > len(LINES.splitlines()) * (SEALED - 2) // SEALED


@pytest.mark.parametrize("keeps_manifest", [True, False])
def test_a_newest_segment_that_was_cut_to_nothing_stops_no_background_work(
    run: Run, root: Path, caplog: pytest.LogCaptureFixture, keeps_manifest: bool
) -> None:
    cut(segments(root)[-1], 160)  # header and footer fit, and no record
    if not keeps_manifest:
        shutil.rmtree(root / "aof" / "orders" / "manifest")
    assert run("aof", "seal", "orders").exit_code == 0
    assert run("aof", "append", "orders", stdin=LINES).exit_code == 0
    assert "background_work_failed" not in caplog.text
    assert "segment_missing" not in caplog.text
    assert run("manifest", "verify", "orders").exit_code == 0


def test_what_is_left_of_a_newest_segment_that_was_cut_counts_on_from_those_before_it(
    run: Run, root: Path
) -> None:
    cut(segments(root)[-1], 5000)
    assert run("aof", "append", "orders", stdin=b"more\n").exit_code == 0
    assert run("aof", "seal", "orders").exit_code == 0  # returns when all of them have footers
    for record in run("damage", "list", as_json=True).document()["records"]:
        assert run("damage", "acknowledge", str(record["id"])).exit_code == 0
    done = run("aof", "verify", "orders")
    assert (done.exit_code, b"all whole" in done.out) == (0, True), done.out
