"""`lakebed damage`: loss that opening a topic repaired stays on record until it is acknowledged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, NotFound
from lakebed.base.units import MIB
from lakebed.cli.main import main
from lakebed.host.store import Store
from lakebed.keratin.format import RECORDS_START
from lakebed.store.read_only import ReadOnlyStore
from lakebed.stroma.format import EVENTS_START
from tests.cli.in_process import Run

COUNT = 40  # messages of a kibibyte, some 15 to a segment


@pytest.fixture
def logs(root: Path) -> list[Path]:
    """Of a topic with several sealed segments."""
    with Store.open(root) as store:
        topic = store.topics.create("orders", settings={"segment_bytes": "16KiB"})
        for number in range(COUNT):
            topic.append_batch([b"%04d%s" % (number, b"x" * 1000)]).result()
    return sorted((root / "topics" / "orders" / "0" / "segments").glob("*.log"))


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


def numbers(out: bytes) -> list[int]:
    return [int(line[:4]) for line in out.splitlines()]


def damage_newest(logs: list[Path]) -> list[int]:
    """A byte of the second message of the newest segment; the offsets that are lost."""
    base = int(logs[-1].stem)
    flip(logs[-1], RECORDS_START + 1500)
    return [base + 1]


def truncate_sealed(logs: list[Path]) -> list[int]:
    """All but the first two messages of a sealed segment."""
    with logs[1].open("r+b") as file:
        file.truncate(RECORDS_START + 2200)
    return list(range(int(logs[1].stem) + 2, int(logs[2].stem)))


def remove_sealed(logs: list[Path]) -> list[int]:
    logs[1].unlink()
    return list(range(int(logs[1].stem), int(logs[2].stem)))


def remove_oldest(logs: list[Path]) -> list[int]:
    logs[0].unlink()
    return list(range(int(logs[1].stem)))


def remove_all(logs: list[Path]) -> list[int]:
    """The manifest, too: only the durable end is left to tell how many there were."""
    for log in logs:
        log.unlink()
    (logs[0].parents[1] / "manifest.bin").unlink()
    return list(range(COUNT))


DAMAGES = [damage_newest, truncate_sealed, remove_sealed, remove_oldest, remove_all]


@pytest.mark.parametrize("damage", DAMAGES)
def test_loss_that_opening_repaired_is_reported_until_it_is_acknowledged(
    run: Run, root: Path, logs: list[Path], damage: object
) -> None:
    lost = damage(logs)  # type: ignore[operator]
    with Store.open(root) as store:
        store.topic("orders")
    done = run("verify")
    assert done.exit_code == 65, done.out
    assert f"offsets {lost[0]} to {lost[-1]} lost" in done.out.decode() or (
        len(lost) == 1 and f"offset {lost[0]} lost" in done.out.decode()
    )
    assert run("topic", "verify", "orders").exit_code == 65
    listed = run("damage", "list", as_json=True)
    assert listed.exit_code == 65
    [record] = listed.document()["records"]
    assert (record["engine"], record["name"]) == ("topics", "orders")
    assert (record["partition"], record["acknowledged_ms"]) == (0, None)
    assert (record["first_offset"], record["next_offset"]) == (lost[0], lost[-1] + 1)
    assert record["path"].startswith("topics/orders/0/segments/")
    for saved in record["saved"]:
        assert (root / saved).exists()
    with Store.open(root) as store:  # found once, recorded once
        store.topic("orders")
        assert len(store.damage.list()) == 1
    [line] = run("damage", "acknowledge", "1").lines()
    assert line.startswith("1: acknowledged: topics orders, partition 0: ")
    assert run("verify").exit_code == 0
    assert run("topic", "verify", "orders").exit_code == 0
    listed = run("damage", "list", as_json=True)
    assert (listed.exit_code, len(listed.document()["records"])) == (0, 1)
    with Store.open(root) as store:
        store.topic("orders")
    assert run("verify").exit_code == 0, "it is not found again"


@pytest.mark.parametrize("damage", DAMAGES)
def test_readers_do_not_pass_lost_messages_in_silence(
    run: Run, root: Path, logs: list[Path], damage: object
) -> None:
    lost = damage(logs)  # type: ignore[operator]
    kept = [number for number in range(COUNT) if number not in lost]
    before = [number for number in kept if number < lost[0]]
    with Store.open(root) as store:
        partition = store.topic("orders").partition(0)
        seen: list[int] = []
        with pytest.raises(Corrupt, match="lakebed damage acknowledge 1"):
            seen.extend(message.offset for message in partition.read())
        assert seen == before
        with pytest.raises(Corrupt):
            partition.get(lost[0])
        assert [one.offset for one in partition.read(skip_damage=True)] == kept
        group = store.topic("orders").group("billing")
        leased: list[int] = []
        while messages := group.lease(max_messages=100):
            leased += [message.offset for message in messages]
        assert leased == kept
        counters = group.parts[0].counters.snapshot().counters
        assert counters["stroma_messages_damaged"] == len(lost)
    done = run("topic", "consume", "orders", "--from-beginning")
    assert done.exit_code == 65
    assert numbers(done.out) == before
    assert "lakebed damage acknowledge 1" in done.error_line()
    done = run("topic", "consume", "orders", "--from-beginning", "--skip-damage")
    assert (done.exit_code, numbers(done.out)) == (65, kept)
    assert run("damage", "acknowledge", "1").exit_code == 0
    done = run("topic", "consume", "orders", "--from-beginning")
    assert (done.exit_code, numbers(done.out)) == (0, kept)


def test_a_topic_of_the_same_name_has_lost_nothing(run: Run, root: Path, logs: list[Path]) -> None:
    damage_newest(logs)
    with Store.open(root) as store:
        store.topic("orders")
        store.topics.delete("orders")
        partition = store.topic("orders").partition(0)
        partition.append_batch([b"%d" % number for number in range(COUNT)]).result()
        assert len(list(partition.read())) == COUNT
    assert run("verify").exit_code == 0


def test_what_is_on_record_goes_with_a_backup(run: Run, root: Path, logs: list[Path]) -> None:
    damage_newest(logs)
    with Store.open(root) as store:
        store.topic("orders")
    assert run("backup", str(root.parent / "vault")).exit_code == 0
    assert main(["--root", str(root.parent / "new"), "restore", str(root.parent / "vault")]) == 0
    with ReadOnlyStore(root.parent / "new") as store:
        assert [record.id for record in store.damage.list()] == [1]


def test_acknowledging_what_is_not_there_is_a_mistake(run: Run, root: Path) -> None:
    with Store.open(root) as store, pytest.raises(NotFound):
        store.damage.acknowledge(7)
    done = run("damage", "acknowledge", "7")
    assert (done.exit_code, done.error_line()) == (
        66,
        "there is no damage record 7; `lakebed damage list` shows all records",
    )
    assert run("damage", "list").lines() == ["nothing is lost"]


def test_damage_in_a_log_is_put_on_record_when_it_is_opened(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        log = store.log("events")
        log.append_records([b"x" * 100] * 20)
        log.flush()
    [segment] = (root / "aof" / "events" / "segments").glob("*.seg")
    flip(segment, 300)
    with Store.open(root) as store:
        store.log("events")
        [record] = store.damage.list()
    assert (record.engine, record.name) == ("logs", "events")
    assert run("verify").exit_code == 65


@pytest.mark.parametrize("gone", [[0], [1], [3], [0, 1, 2, 3]], ids=str)
def test_a_lost_segment_of_a_log_stays_on_record(run: Run, root: Path, gone: list[int]) -> None:
    with Store.open(root) as store:
        log = store.log("events")
        for number in range(4):
            log.flush(log.append_record(b"record %d" % number))
            if number < 3:
                log.seal_current_segment()
    segments = sorted((root / "aof" / "events" / "segments").glob("*.seg"))
    for number in gone:
        segments[number].unlink()
    assert run("verify").exit_code == 65
    for _ in range(2):  # found once, recorded once
        with Store.open(root) as store:
            store.log("events")
            problems = [record.problem for record in store.damage.list()]
            assert problems == [
                f"segment {number} is missing, with all its records" for number in gone
            ]
    done = run("verify")
    assert done.exit_code == 65
    for record_id, number in enumerate(gone, 1):
        assert f"logs events: segment {number} is missing" in done.out.decode()
        assert run("damage", "acknowledge", str(record_id)).exit_code == 0
    if gone != [1]:  # a gap between segments is there to be seen
        assert run("verify").exit_code == 0


@pytest.mark.parametrize("has_tail", [False, True])
def test_a_lost_manifest_log_is_on_record_if_segments_are_elsewhere(
    run: Run, root: Path, has_tail: bool
) -> None:
    with Store.open(root) as store:
        log = store.log("events")
        for number in range(2):
            log.flush(log.append_record(b"record %d" % number))
            log.seal_current_segment()
        log.tiers.upload()
        log.tiers.evict(warm=True)
        if has_tail:
            log.flush(log.append_record(b"tail"))
    shutil.rmtree(root / "aof" / "events" / "manifest")
    with Store.open(root) as store:
        store.log("events")
        [record] = store.damage.list()
    assert (record.engine, record.name) == ("logs", "events")
    assert record.problem.startswith("the manifest log is missing: segments 0 to 1 may be in")
    assert run("verify").exit_code == 65


def test_a_damaged_record_of_damage_is_kept_and_begins_anew(run: Run, root: Path) -> None:
    with Store.open(root):
        pass
    (root / "damage.json").write_bytes(b"{")
    done = run("verify")
    assert (done.exit_code, b"record of damage" in done.out) == (65, True)
    with Store.open(root) as store:
        [record] = store.damage.list()
        assert record.problem == "the record of damage was damaged"
    [saved] = (root / "quarantine").iterdir()
    assert saved.read_bytes() == b"{"


def test_a_store_opens_after_its_record_of_damage_became_too_large(root: Path) -> None:
    with Store.open(root):
        pass
    path = root / "damage.json"
    path.touch()
    os.truncate(path, 16 * MIB + 1)
    with Store.open(root) as store:
        [record] = store.damage.list()
        assert record.problem == "the record of damage was damaged"
    [saved] = (root / "quarantine").iterdir()
    assert saved.stat().st_size == 16 * MIB + 1


def test_a_newer_record_of_damage_refuses_the_store(run: Run, root: Path) -> None:
    with Store.open(root):
        pass
    document = {"format": "lakebed damage", "version": 2}
    (root / "damage.json").write_text(json.dumps(document))
    assert run("topic", "create", "orders").exit_code == 65


def test_damage_of_a_group_that_opening_repaired_stays_on_record(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        topic = store.topic("orders")
        topic.append_batch([b"%d" % number for number in range(10)]).result()
        group = topic.group("billing")
        for message in group.lease(max_messages=5):
            group.ack(message)
    [delta] = (root / "groups").glob("*.delta")
    flip(delta, EVENTS_START + 3)
    for _ in range(2):  # found once, recorded once
        with Store.open(root) as store:
            store.topic("orders").group("billing")
            [record] = store.damage.list()
            assert (record.engine, record.name) == ("groups", "orders/billing")
            assert (record.partition, record.path) == (0, f"groups/{delta.name}")
            assert all((root / saved).exists() for saved in record.saved)
    done = run("verify")
    assert done.exit_code == 65
    assert "groups orders/billing, partition 0" in done.out.decode()
    assert run("damage", "acknowledge", "1").exit_code == 0
    assert run("verify").exit_code == 0
    with Store.open(root) as store:
        store.topics.delete_group("orders", "billing")
        assert store.damage.list() == []


def test_a_topic_that_is_deleted_takes_the_damage_of_its_groups_along(root: Path) -> None:
    with Store.open(root) as store:
        topic = store.topic("orders")
        topic.append_batch([b"a"]).result()
        topic.group("billing").lease()
    [delta] = (root / "groups").glob("*.delta")
    flip(delta, EVENTS_START + 3)
    with Store.open(root) as store:
        store.topic("orders").group("billing")
        assert len(store.damage.list()) == 1
        store.topics.delete("orders")
        assert store.damage.list() == []
