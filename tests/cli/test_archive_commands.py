"""What retention archived is read, verified, repaired and converted as the log itself is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.aof.manager import AofManager
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.kernels.disk import real_disk
from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import LINES, SEALED, flip, make_root, objects, write_segments

ARCHIVED = SEALED - 1
DAMAGED_EXIT_CODE = 65


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Of a log whose segments were in Tier 2 alone when retention came to archive them."""
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    assert run("aof", "upload", "orders").exit_code == 0
    assert run("aof", "evict", "orders", "--warm").exit_code == 0
    world = World(1)
    config = AofConfig(segment_bytes=64 * KIB, retention=RetentionConfig(count_max=1, archive=True))
    with AofManager(root, config=config, disk=real_disk(), runner=world.runner) as manager:
        manager.open("orders")
        world.runner.advance(10 * 10**9)
    return run


def archive(root: Path) -> list[Path]:
    return sorted((root / "aof" / "orders" / "archive").glob("*.seg"))


def test_every_record_is_in_the_archive_or_in_the_log(run: Run, root: Path) -> None:
    assert len(archive(root)) == ARCHIVED
    assert len(objects(root)) == SEALED - ARCHIVED
    archived = run("aof", "cat", "orders", "--archived")
    live = run("aof", "cat", "orders")
    assert (archived.exit_code, live.exit_code) == (0, 0)
    assert archived.out + live.out == LINES
    reverse = run("aof", "cat", "orders", "--archived", "--reverse", "--max", "1").out
    assert reverse == archived.out.splitlines(keepends=True)[-1]


def test_the_archive_of_a_log_without_one_is_empty(run: Run) -> None:
    assert run("aof", "append", "audit", stdin=b"one\n").exit_code == 0
    assert run("aof", "cat", "audit", "--archived").lines() == []
    assert run("aof", "cat", "missing", "--archived").exit_code == 66


def test_archived_segments_are_verified(run: Run, root: Path) -> None:
    whole = run("aof", "verify", "orders", as_json=True).document()
    assert (whole["ok"], whole["archived"], whole["segments"]) == (True, ARCHIVED, 0)
    assert f"{ARCHIVED} archived segments" in run("verify").lines()[0]
    path = archive(root)[2]
    flip(path, 95)
    damaged = run("aof", "verify", "orders", as_json=True)
    assert damaged.exit_code == DAMAGED_EXIT_CODE
    assert {problem["path"] for problem in damaged.document()["problems"]} == {str(path)}
    assert run("verify").exit_code == DAMAGED_EXIT_CODE
    assert run("aof", "cat", "orders", "--archived").exit_code == DAMAGED_EXIT_CODE
    passed_over = run("aof", "cat", "orders", "--archived", "--skip-damage")
    assert passed_over.exit_code == DAMAGED_EXIT_CODE
    lines = set(LINES.splitlines())
    assert len(set(passed_over.out.splitlines()) & lines) > len(lines) // 2
    repaired = run("aof", "repair", "orders", as_json=True).document()
    assert any(str(path) in problem for problem in repaired["problems"])
    assert repaired["quarantined"]


def test_a_last_archived_segment_that_is_too_short_is_damage(run: Run, root: Path) -> None:
    whole = run("aof", "cat", "orders", "--archived").out
    with archive(root)[-1].open("r+b") as file:
        file.truncate(100)
    done = run("aof", "cat", "orders", "--archived", "--skip-damage")
    assert done.exit_code == DAMAGED_EXIT_CODE
    assert archive(root)[-1].name.encode() in done.err
    assert done.out
    assert whole.startswith(done.out)
    assert run("aof", "cat", "orders", "--archived").exit_code == DAMAGED_EXIT_CODE


def test_an_archived_segment_is_converted_by_its_number(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "converted"
    done = run(
        "aof", "convert", "orders", "1", "--to", "interchange", "--lossy", "--output", target,
        as_json=True,
    )  # fmt: skip
    assert done.exit_code == 0
    (path,) = target.glob("*.seg")
    assert path.name.startswith(f"{1:020}_")
    back = tmp_path / "back"
    again = run("aof", "convert", "orders", path, "--to", "runtime", "--output", back)
    assert again.exit_code == 0


def test_segments_lists_what_is_archived(run: Run) -> None:
    found = run("aof", "segments", "orders", as_json=True).document()["segments"]
    assert [segment["state"] for segment in found] == ["archived"] * ARCHIVED + ["sealed"]
