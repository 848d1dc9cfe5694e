"""`lakebed aof tiers`, `upload`, `evict`, `hydrate`: the log stays the same, wherever it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import (
    LINES,
    SEALED,
    flip,
    make_root,
    objects,
    tiers_of,
    warm_files,
    write_segments,
)

pytestmark = pytest.mark.thorough

ALL = range(SEALED)


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


def test_a_log_goes_to_tier_2_and_back_and_stays_the_same(run: Run, root: Path) -> None:
    assert tiers_of(run) == dict.fromkeys(ALL, "0")
    assert run("aof", "upload", "orders").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "0+1+2")
    assert (len(objects(root)), len(warm_files(root))) == (SEALED, SEALED)
    assert run("aof", "evict", "orders").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "1+2")
    assert run("aof", "cat", "orders").out == LINES
    assert run("aof", "evict", "orders", "--warm").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "2")
    assert (len(objects(root)), len(warm_files(root))) == (SEALED, 0)
    assert list((root / "aof" / "orders" / "segments").glob("*.seg")) == []
    assert run("aof", "cat", "orders").out == LINES
    assert run("aof", "tail", "orders", "-n", "2").out == b"".join(LINES.splitlines(True)[-2:])
    assert run("aof", "hydrate", "orders").exit_code == 0
    assert tiers_of(run) == dict.fromkeys(ALL, "0+2")
    assert run("aof", "cat", "orders").out == LINES
    assert run("aof", "verify", "orders", "--tier2").exit_code == 0


def test_a_log_moves_to_another_tier_2(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "--warm")
    new = root.parent / "elsewhere"
    done = run("aof", "migrate-tier2", "orders", new)
    assert done.exit_code == 0
    first, second = done.lines()
    assert first.startswith(f"orders: {SEALED} objects copied, ")
    assert first.endswith(f"; Tier 2 is {new}")
    assert second == "orders: objects are left at tier2; delete them with --delete"
    assert len(objects(root)) == SEALED
    assert run("aof", "cat", "orders").out == LINES
    document = run("aof", "migrate-tier2", "orders", new, "--delete", as_json=True).document()
    assert (document["copied_objects"], document["deleted_objects"]) == (0, SEALED)
    assert (document["tier2"], document["left_at"], document["missing"]) == (str(new), None, [])
    assert objects(root) == []
    assert run("aof", "cat", "orders").out == LINES
    assert run("aof", "verify", "orders", "--tier2").exit_code == 0
    assert run("aof", "hydrate", "orders").exit_code == 0


def test_a_tier_2_that_cannot_be_used_is_one_line(run: Run, root: Path) -> None:
    for url in ("folder", "memory://", "ftp://x"):
        done = run("aof", "migrate-tier2", "orders", url)
        assert (done.exit_code, done.out) == (78, b"")
        assert url in done.error_line()
    done = run("aof", "migrate-tier2", "orders", root / "tier2")
    assert (done.exit_code, done.out) == (64, b"")
    assert "another name of the store that already has" in done.error_line()
    done = run("aof", "migrate-tier2", "nope", root.parent / "elsewhere")
    assert (done.exit_code, done.out) == (66, b"")
    assert run("aof", "cat", "orders").out == LINES


def test_segments_that_came_back_do_not_hide_those_behind_them(run: Run) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "--warm")
    run("aof", "hydrate", "orders", "0", "1")
    assert run("aof", "cat", "orders").out == LINES


def test_what_was_moved_is_printed(run: Run) -> None:
    first, second, total = run("aof", "upload", "orders", "0", "1").lines()
    assert first.startswith("segment 0: uploaded, ")
    assert second.endswith(", now in tier 0+1+2")
    assert total.startswith("orders: 2 segments uploaded, ")
    last = run("aof", "upload", "orders").lines()[-1]
    assert last.endswith("; skipped: 2 in Tier 2 already")
    assert run("aof", "upload", "orders").lines() == [
        f"orders: 0 segments uploaded; skipped: {SEALED} in Tier 2 already"
    ]
    assert run("aof", "hydrate", "orders", "3", "3").lines() == [
        "orders: 0 segments hydrated; skipped: 1 in Tier 0 already"
    ]


def test_what_was_moved_as_json_is_one_document(run: Run) -> None:
    uploaded = run("aof", "upload", "orders", "1", as_json=True).document()
    (segment,) = uploaded["segments"]
    assert (segment["segment_id"], segment["tiers"]) == (1, [0, 1, 2])
    assert uploaded["bytes"] == segment["bytes"] == segment["compressed_bytes"]
    evicted = run("aof", "evict", "orders", "1", "--warm", as_json=True).document()
    freed = segment["segment_bytes"] + segment["compressed_bytes"]
    assert (evicted["bytes"], evicted["segments"][0]["tiers"]) == (freed, [2])
    hydrated = run("aof", "hydrate", "orders", as_json=True).document()
    assert hydrated["bytes"] == segment["segment_bytes"]
    assert [one["segment_id"] for one in hydrated["segments"]] == [1]
    assert {one["why"] for one in hydrated["skipped"]} == {"in Tier 0 already"}
    assert hydrated["failed"] == []


def test_evict_passes_over_what_tier_2_does_not_have(run: Run) -> None:
    run("aof", "upload", "orders", "0")
    *_, total = run("aof", "evict", "orders").lines()
    assert total.startswith("orders: 1 segment evicted, ")
    assert total.endswith(f"; skipped: {SEALED - 1} not in Tier 2 yet")
    assert tiers_of(run) == {**dict.fromkeys(ALL, "0"), 0: "1+2"}


def test_tiers_is_a_table_with_totals(run: Run, root: Path) -> None:
    run("aof", "upload", "orders", "0", "1")
    run("aof", "evict", "orders", "0", "--warm")
    run("aof", "append", "orders", stdin=b"open\n")
    lines = run("aof", "tiers", "orders").lines()
    assert lines[0].endswith(f", Tier 2 is {root}/tier2")
    rows = [line.split() for line in lines]
    heading = "segment tiers state bytes compressed ratio pending failures object key"
    assert heading.split() in rows
    document = run("aof", "tiers", "orders", as_json=True).document()
    first = document["segments"][0]
    assert first["ratio"] == round(first["bytes"] / first["compressed_bytes"], 2)
    sizes = [str(first["bytes"]), str(first["compressed_bytes"]), f"{first['ratio']:.1f}"]
    assert ["0", "2", "sealed", *sizes, "-", "-", first["object_key"]] in rows
    assert [str(SEALED), "0", "open", "-", "-", "-", "-", "-", "-"] in rows
    assert [document["tiers"][f"tier{tier}"]["segments"] for tier in range(3)] == [SEALED, 1, 2]
    assert document["tiers"]["tier1"]["bytes"] == document["segments"][1]["compressed_bytes"]
    assert any(line.startswith("tier 2: 2 segments, ") for line in lines)
    assert objects(root)[0].name == first["object_key"].rpartition("/")[2]


def test_segments_and_dump_show_every_tier_and_ask_tier_2_nothing(run: Run, root: Path) -> None:
    before = run("aof", "segments", "orders", as_json=True).document()["segments"]
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "0", "1")
    run("aof", "evict", "orders", "1", "--warm")
    (root / "tier2").rename(root / "away")
    after = run("aof", "segments", "orders", as_json=True).document()["segments"]
    assert [segment["tiers"] for segment in after] == [[1, 2], [2], *[[0, 1, 2]] * (SEALED - 2)]
    assert after[0]["records"] == before[0]["records"]
    assert after[1]["records"] is None
    for name in ("id", "base_offset", "sealed_at_ns", "bytes", "state"):
        assert [segment[name] for segment in after] == [segment[name] for segment in before]
    (log,) = run("aof", "dump", as_json=True).document()["logs"]
    assert log["counters"]["records"] == LINES.count(b"\n")
    assert log["counters"]["bytes"] == sum(segment["bytes"] for segment in before)
    counts = {tier: total["segments"] for tier, total in log["residency"].items()}
    assert counts == {"tier0": SEALED - 2, "tier1": SEALED - 1, "tier2": SEALED, "archive": 0}
    assert log["state"]["oldest"] == "0:64"


def test_how_many_records_there_are_is_not_guessed(run: Run) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "--warm")
    (log,) = run("aof", "dump", as_json=True).document()["logs"]
    assert log["counters"]["records"] is None
    run("aof", "append", "orders", stdin=b"one more\n")
    (log,) = run("aof", "dump", as_json=True).document()["logs"]
    assert log["counters"]["records"] == LINES.count(b"\n") + 1


def test_verify_reads_warm_files_and_with_an_option_the_objects(run: Run) -> None:
    records = LINES.count(b"\n")
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "0", "1", "2")
    assert run("aof", "verify", "orders").lines() == [
        f"orders: {SEALED} segments, {records} records, {SEALED} warm files, all whole"
    ]
    run("aof", "evict", "orders", "--warm")
    assert run("aof", "verify", "orders").lines() == [
        "orders: 0 segments, 0 records, all whole",
        f"orders: not read: {SEALED} segments that only Tier 2 has (--tier2 reads them)",
    ]
    assert run("aof", "verify", "orders", "--tier2").lines() == [
        f"orders: {SEALED} segments, {records} records, {SEALED} objects, all whole"
    ]
    document = run("aof", "verify", "orders", as_json=True).document()
    assert (document["ok"], document["unread"]) == (True, list(ALL))


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_verify_tells_a_warm_file_that_is_not_whole(run: Run, root: Path, damage: str) -> None:
    run("aof", "upload", "orders")
    path = warm_files(root)[1]
    if damage == "flip":
        flip(path, 40)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    done = run("aof", "verify", "orders")
    (line,) = done.out.decode().splitlines()
    where = path.parent if damage == "gone" else path
    assert line.startswith(f"{where}: corrupt: ")
    assert done.exit_code == 65
    assert run("aof", "verify", "orders", as_json=True).document()["ok"] is False


@pytest.mark.parametrize("tier2", [(), ("--tier2",)])
def test_an_evicted_segment_with_a_damaged_warm_file_is_not_reported_as_only_in_tier_2(
    run: Run, root: Path, tier2: tuple[str, ...]
) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "0")
    path = warm_files(root)[0]
    flip(path, 40)
    done = run("aof", "verify", "orders", *tier2)
    (line,) = done.out.decode().splitlines()
    assert line.startswith(f"{path}: corrupt: ")
    assert run("aof", "verify", "orders", *tier2, as_json=True).document()["unread"] == []
    assert "not read" not in run("verify", *tier2).out.decode()


@pytest.mark.parametrize("damage", ["flip", "gone", "other"])
def test_verify_tells_an_object_that_is_not_whole(run: Run, root: Path, damage: str) -> None:
    run("aof", "upload", "orders")
    path, other = objects(root)[:2]
    if damage == "flip":
        flip(path, 40)
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(other.read_bytes())
    assert run("aof", "verify", "orders").exit_code == 0, "nobody looked at Tier 2"
    done = run("aof", "verify", "orders", "--tier2")
    (line,) = done.out.decode().splitlines()
    assert line.startswith(f"{path}: corrupt: ")
    assert done.exit_code == 65


def test_a_segment_that_is_nowhere_is_missing(run: Run, root: Path) -> None:
    run("aof", "upload", "orders", "0")
    run("aof", "evict", "orders", "0", "--warm")
    files = sorted((root / "aof" / "orders" / "segments").glob("*.seg"))
    files[0].unlink()
    done = run("aof", "verify", "orders")
    assert done.out.decode().splitlines()[0] == (
        f"{files[1]}: corrupt: missing before it: segment 1"
    )
    assert done.exit_code == 65


def test_repair_leaves_evicted_segments_alone(run: Run) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "1", "2", "--warm")
    assert run("aof", "repair", "orders", "--dry-run").lines() == ["orders: nothing to repair"]
    assert run("aof", "repair", "orders").lines() == ["orders: nothing to repair"]
    assert run("aof", "cat", "orders").out == LINES


def test_a_missing_object_is_made_anew_from_a_local_copy(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "1")
    for path in objects(root)[:2]:
        path.unlink()
    foreseen = run("aof", "repair", "orders", "--tier2", "--dry-run").lines()
    assert [line.split(": ")[1:3] for line in foreseen] == [
        ["segment 0", "would be uploaded again"],
        ["segment 1", "would be uploaded again"],
    ]
    assert len(objects(root)) == SEALED - 2
    document = run("aof", "repair", "orders", "--tier2", as_json=True).document()
    assert [(one["segment_id"], one["outcome"]) for one in document["repaired"]] == [
        (0, "uploaded again"),
        (1, "uploaded again"),
    ]
    assert run("aof", "repair", "orders", "--tier2").lines() == [
        "orders: nothing to repair in Tier 2"
    ]
    assert run("aof", "verify", "orders", "--tier2").exit_code == 0


def test_an_object_that_is_lost_is_told_until_it_is_back(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "1", "--warm")
    path = objects(root)[1]
    path.rename(root / "away")
    refused = run("aof", "hydrate", "orders", "1")
    assert refused.exit_code == 66
    assert refused.error_line().endswith("lakebed aof repair orders --tier2")
    shown = run("aof", "tiers", "orders").out.decode()
    assert "hydration: the object is not there, it must be repaired" in shown
    assert "objects are missing: run lakebed aof repair orders --tier2" in shown
    lost = run("aof", "repair", "orders", "--tier2")
    assert lost.out.decode().startswith("orders: segment 1: missing, and no local copy is left: ")
    assert lost.exit_code == 65
    (root / "away").rename(path)
    assert "segment 1: found again" in run("aof", "repair", "orders", "--tier2").lines()[0]
    assert run("aof", "cat", "orders").out == LINES
    assert "hydration:" not in run("aof", "tiers", "orders").out.decode()
