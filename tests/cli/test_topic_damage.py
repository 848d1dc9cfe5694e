"""`lakebed topic verify` and `repair`: what is found, saved and lost, and what stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lakebed.host.store import Store
from lakebed.keratin.format import RECORDS_START
from tests.cli.in_process import Run

pytestmark = pytest.mark.thorough

COUNT = 60  # messages of a kibibyte, some 15 to a segment


def fill(root: Path, partitions: int) -> list[bytes]:
    """What each partition of a topic with several sealed segments holds."""
    made = [b"%04d%s" % (number, b"x" * 1000) for number in range(COUNT)]
    with Store.open(root) as store:
        settings = {"segment_bytes": "16KiB"}
        topic = store.topics.create("orders", partitions=partitions, settings=settings)
        for partition in topic.partitions:
            for line in made:  # one by one: what is committed at once is in one segment
                partition.append_batch([line]).result()
    return made


@pytest.fixture
def lines(root: Path) -> list[bytes]:
    return fill(root, 1)


def logs(root: Path) -> list[Path]:
    return sorted((root / "topics" / "orders" / "0" / "segments").glob("*.log"))


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


def verify(run: Run, exit_code: int) -> Any:
    done = run("topic", "verify", "orders", as_json=True)
    assert done.exit_code == exit_code
    return done.document()


def numbers(run: Run) -> list[int]:
    out = run("topic", "consume", "orders", "--from-beginning").out
    return [int(line[:4]) for line in out.splitlines()]


def test_a_whole_topic_is_whole(run: Run, root: Path, lines: list[bytes]) -> None:
    segments = len(logs(root))
    assert segments >= 4
    assert run("topic", "verify", "orders").lines() == [
        f"orders: 1 partition, {segments} segments, {COUNT} records, all whole"
    ]
    assert run("topic", "repair", "orders").lines() == ["orders: nothing to repair"]
    assert run("topic", "repair", "orders", "--dry-run").lines() == ["orders: nothing to repair"]
    assert numbers(run) == list(range(COUNT))


def test_damage_before_the_checkpoint_of_the_newest_segment_is_repaired(
    run: Run, root: Path
) -> None:
    made = [b"%04d%s" % (number, b"x" * 1000) for number in range(COUNT)]
    with Store.open(root) as store:
        topic = store.topics.create("orders", settings={"checkpoint_bytes": "4KiB"})
        topic.append_batch(made).result()
    assert (root / "topics" / "orders" / "0" / "checkpoint").exists()
    (damaged,) = logs(root)
    flip(damaged, RECORDS_START + 500)
    assert run("topic", "verify", "orders").exit_code == 65
    assert "orders: partition 0: offset 0 is lost" in run("topic", "repair", "orders").lines()
    assert run("damage", "acknowledge", "1").exit_code == 0
    assert numbers(run) == list(range(1, COUNT))
    with Store.open(root) as store:
        assert store.topic("orders").append_batch([b"0060"]).result() == (COUNT, 1)
    assert numbers(run) == list(range(1, COUNT + 1))


def test_a_flipped_byte_is_found_repaired_and_its_loss_stated(
    run: Run, root: Path, lines: list[bytes]
) -> None:
    damaged = logs(root)[1]
    flip(damaged, RECORDS_START + 500)
    base = int(damaged.stem)
    done = run("topic", "verify", "orders")
    assert (done.exit_code, done.err) == (65, b"")
    first, second = done.out.decode().splitlines()
    assert first.startswith(f"{damaged}: at byte {RECORDS_START}: corrupt: ")
    assert second == f"orders: partition 0: offset {base} is lost"

    reading = run("topic", "consume", "orders", "--from-beginning")
    assert reading.exit_code == 65
    assert reading.out == b"".join(line + b"\n" for line in lines[:base])
    assert str(damaged) in reading.error_line()
    skipping = run("topic", "consume", "orders", "--from-beginning", "--skip-damage")
    assert skipping.exit_code == 65
    assert skipping.error_line().startswith(f"skipped: {damaged}")
    whole = [line for number, line in enumerate(lines) if number != base]
    assert skipping.out == b"".join(line + b"\n" for line in whole)

    before = damaged.read_bytes()
    foreseen = run("topic", "repair", "orders", "--dry-run", as_json=True).document()
    assert foreseen["lost"] == [{"partition": 0, "start": base, "end": base + 1}]
    assert (foreseen["dry_run"], foreseen["quarantined"]) == (True, [])
    assert damaged.read_bytes() == before

    repaired = run("topic", "repair", "orders", as_json=True).document()
    assert repaired["lost"] == foreseen["lost"]
    assert repaired["torn_bytes"] == 0
    [saved] = repaired["quarantined"]
    assert Path(saved).read_bytes() == before[RECORDS_START : RECORDS_START + 36 + 1004]
    assert verify(run, 65)["problems"], "what is lost stays on record"
    assert run("damage", "acknowledge", "1").exit_code == 0
    found = verify(run, 0)
    assert (found["records"], found["notes"]) == (COUNT - 1, [])
    assert numbers(run) == [number for number in range(COUNT) if number != base]
    assert run("topic", "repair", "orders").lines() == ["orders: nothing to repair"]
    run("topic", "produce", "orders", stdin=b"%04d\n" % COUNT)
    assert numbers(run)[-1] == COUNT


def test_repair_says_what_it_did_in_lines(run: Run, root: Path, lines: list[bytes]) -> None:
    damaged = logs(root)[0]
    flip(damaged, RECORDS_START + 5)
    told = run("topic", "repair", "orders").lines()
    assert told[0].startswith(f"orders: damaged: {damaged}: at byte {RECORDS_START}: corrupt")
    assert "orders: partition 0: offset 0 is lost" in told
    assert told[-1].startswith(f"orders: saved as {root}/quarantine/keratin-orders-0-")


def test_a_missing_segment_is_a_stated_loss(run: Run, root: Path, lines: list[bytes]) -> None:
    gone, following = (int(path.stem) for path in logs(root)[1:3])
    logs(root)[1].unlink()
    found = verify(run, 65)
    assert [one["problem"] for one in found["problems"]] == ["the file is missing"]
    assert found["lost"] == [{"partition": 0, "start": gone, "end": following}]
    repaired = run("topic", "repair", "orders", as_json=True).document()
    assert repaired["lost"] == found["lost"]
    assert run("damage", "acknowledge", "1").exit_code == 0
    verify(run, 0)
    assert numbers(run) == [*range(gone), *range(following, COUNT)]


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_missing_newest_segment_is_a_stated_loss(
    run: Run, root: Path, lines: list[bytes], has_manifest: bool
) -> None:
    newest = logs(root)[-1]
    gone = int(newest.stem)
    newest.unlink()
    if not has_manifest:
        (root / "topics" / "orders" / "0" / "manifest.bin").unlink()
    found = verify(run, 65)
    assert (newest.name, "corrupt", "the file is missing") in {
        (Path(one["path"] or "").name, one["verdict"], one["problem"]) for one in found["problems"]
    }
    assert found["lost"] == [{"partition": 0, "start": gone, "end": COUNT}]
    assert run("verify").exit_code == 65
    assert numbers(run) == list(range(gone))
    with Store.open(root) as store:
        partition = store.topic("orders").partition(0)
        assert partition.append_batch([b"%04d" % COUNT]).result() == (COUNT, 1)
        [record] = store.damage.list()
    assert (record.first_offset, record.next_offset) == (gone, COUNT)
    assert run("damage", "acknowledge", "1").exit_code == 0
    verify(run, 0)
    assert numbers(run) == [*range(gone), COUNT]


def test_the_newest_segment_that_is_removed_while_a_writer_runs_is_a_stated_loss(
    run: Run, root: Path
) -> None:
    with Store.open(root) as store:
        store.topic("orders").append_batch([b"0000", b"0001"]).result()
        logs(root)[-1].unlink()
        assert verify(run, 65)["lost"] == [{"partition": 0, "start": 0, "end": 2}]


def test_a_torn_end_is_told_and_cut(run: Run, root: Path, lines: list[bytes]) -> None:
    active = logs(root)[-1]
    with active.open("ab") as file:
        file.write(b"KR\0\1 half a record")
    # Where the machine was not started anew, nobody knows whether somebody is still writing it.
    (root / "topics" / "orders" / "0" / "durable_end").unlink()
    [problem] = verify(run, 65)["problems"]
    assert (problem["verdict"], problem["path"]) == ("torn", str(active))
    told = run("topic", "repair", "orders", "--dry-run").lines()
    assert told == [f"orders: {problem['length']} torn bytes would be cut"]
    assert run("topic", "repair", "orders").lines() == [told[0].replace("would be cut", "cut")]
    assert numbers(run) == list(range(COUNT))
    verify(run, 0)


@pytest.mark.parametrize("name", ["manifest.bin", "segments/{}.idx", "segments/{}.tidx"])
def test_what_is_derived_is_mended_without_a_loss(
    run: Run, root: Path, lines: list[bytes], name: str
) -> None:
    folder = root / "topics" / "orders" / "0"
    path = folder / name.format(logs(root)[0].stem)
    flip(path, 40)
    found = verify(run, 65)
    assert {one["verdict"] for one in found["problems"]} == {"mendable"}
    assert found["lost"] == []
    assert run("topic", "repair", "orders").exit_code == 0
    verify(run, 0)
    assert numbers(run) == list(range(COUNT))


def test_beside_a_writer_an_unfinished_end_is_no_problem(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        partition = store.topic("orders").partition(0)
        partition.append_batch([b"a", b"b"]).result()
        with logs(root)[-1].open("r+b") as file:
            file.seek(partition.segments()[-1].end)
            file.write(b"KR\0\1 half a record")
        index = logs(root)[-1].with_suffix(".idx")
        flip(index, 40)
        assert verify(run, 0)["records"] == 2
        flip(index, 40)
        # But below the durable end it is.
        flip(logs(root)[-1], RECORDS_START + 5)
        assert {one["verdict"] for one in verify(run, 65)["problems"]} == {"corrupt"}
        flip(logs(root)[-1], RECORDS_START + 5)


def test_a_log_that_was_replaced_before_the_manifest_is_no_damage(
    run: Run, root: Path, lines: list[bytes]
) -> None:
    """As a crash between the two leaves them: the log is shorter, but has its last offset."""
    manifest = root / "topics" / "orders" / "0" / "manifest.bin"
    before = manifest.read_bytes()
    replaced = logs(root)[0]
    flip(replaced, RECORDS_START + 500)
    run("topic", "repair", "orders")
    run("damage", "acknowledge", "1")
    manifest.write_bytes(before)
    found = verify(run, 0)
    assert found["notes"] == [
        f"{replaced}: compaction replaced the file, and the manifest does not list it yet"
    ]
    assert run("topic", "repair", "orders").lines() == ["orders: nothing to repair"]
    assert verify(run, 0)["notes"] == []
    # One that is cut short is damaged.
    os.truncate(replaced, replaced.stat().st_size - 10)
    assert verify(run, 65)["lost"]


def test_one_damaged_partition_does_not_hide_another(run: Run, root: Path) -> None:
    fill(root, 2)
    for number in (0, 1):
        folder = root / "topics" / "orders" / str(number) / "segments"
        flip(min(folder.glob("*.log")), RECORDS_START + 500)
    found = verify(run, 65)
    assert [one["partition"] for one in found["problems"]] == [0, 1]
    assert [one["partition"] for one in found["lost"]] == [0, 1]
    run("topic", "repair", "orders")
    assert verify(run, 65)["records"] == 2 * (COUNT - 1)
    for record_id in ("1", "2"):
        run("damage", "acknowledge", record_id)
    verify(run, 0)
