"""A topic whose `topic.json` is gone, or whose folder is a symbolic link, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt
from lakebed.host.store import Store
from lakebed.keratin.topic_folder import topic_names
from lakebed.kernels.disk import real_disk
from lakebed.stroma.config import GroupConfig
from tests.cli.in_process import Run


@pytest.fixture
def folder(root: Path) -> Path:
    """Of a topic with two partitions, a message in each, and a group that acked one."""
    with Store.open(root) as store:
        topic = store.topics.create("orders", partitions=2, settings={"retention_ms": "1h"})
        for partition in topic.partitions:
            partition.append_batch([b"kept %d" % partition.number]).result()
        group = topic.group("billing")
        [message] = group.lease(max_messages=1)
        group.ack(message)
    return root / "topics" / "orders"


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_topic_without_its_file_is_refused_and_nothing_of_it_is_removed(
    run: Run, root: Path, folder: Path
) -> None:
    (folder / "topic.json").unlink()
    before, groups = files(folder), files(root / "groups")
    with Store.open(root) as store:
        for use in (store.topic, store.topics.open, store.topics.create, store.topics.ensure):
            with pytest.raises(Corrupt, match="lakebed topic repair orders"):
                use("orders")
    done = run("topic", "produce", "orders", "--create", stdin=b"new\n")
    assert done.exit_code == 65
    assert "lakebed topic repair orders" in done.error_line()
    assert run("topic", "create", "orders").exit_code == 65
    assert files(folder) == before
    assert files(root / "groups") == groups, "what was acked is still known"


def test_verify_and_list_report_a_topic_without_its_file(
    run: Run, root: Path, folder: Path
) -> None:
    (folder / "topic.json").unlink()
    done = run("verify")
    assert done.exit_code == 65
    assert "topic orders: could not be checked: " in done.out.decode()
    assert "topic.json: the file is missing" in done.out.decode()
    done = run("topic", "list")
    assert done.exit_code == 65
    assert b"topic.json" in done.out


def test_repair_writes_the_file_again_and_states_what_is_lost(
    run: Run, root: Path, folder: Path
) -> None:
    (folder / "topic.json").unlink()
    foreseen = run("topic", "repair", "orders", "--dry-run").lines()
    assert "settings are lost" in foreseen[0]
    assert not (folder / "topic.json").exists()
    lines = run("topic", "repair", "orders").lines()
    assert "rebuilt from the folders with 2 partitions" in lines[0]
    assert lines == foreseen
    assert run("topic", "consume", "orders", "--from-beginning").lines() == ["kept 0", "kept 1"]
    assert json.loads((folder / "topic.json").read_bytes())["config"] == {}
    with Store.open(root) as store:
        group = store.topic("orders").group("billing")
        assert len(group.lease(max_messages=9)) == 1, "the other one was acked"


def test_dead_letters_of_a_repaired_topic_are_still_its_own(
    run: Run, root: Path, folder: Path
) -> None:
    with Store.open(root) as store:
        group = store.topic("orders").group("audit", config=GroupConfig(delivery_count_max=1))
        group.nack_all(group.lease())
        assert group.lease() == []
        assert len(list(group.dead_letters())) == 2
    (folder / "topic.json").unlink()
    run("topic", "repair", "orders").lines()
    with Store.open(root) as store:
        group = store.topic("orders").group("audit")
        assert len(list(group.dead_letters())) == 2
        assert (group.redrive(), len(group.lease())) == (2, 2)


def test_a_damaged_topic_file_is_saved_before_repair_replaces_it(
    run: Run, root: Path, folder: Path
) -> None:
    (folder / "topic.json").write_bytes(b"{ not json")
    assert run("topic", "produce", "orders", "--create", stdin=b"new\n").exit_code == 65
    lines = run("topic", "repair", "orders").lines()
    [saved] = (root / "quarantine").iterdir()
    assert lines[-1] == f"orders: saved as {saved}"
    assert saved.read_bytes() == b"{ not json"
    assert run("topic", "consume", "orders", "--from-beginning").lines() == ["kept 0", "kept 1"]


def test_a_topic_without_its_file_can_be_deleted_when_that_is_asked_for(
    run: Run, root: Path, folder: Path
) -> None:
    (folder / "topic.json").unlink()
    assert run("topic", "delete", "orders", "--yes").lines() == ["orders: deleted"]
    assert not folder.exists()
    with Store.open(root) as store:
        assert store.topic("orders").partition(0).high_watermark() == 0


def test_a_missing_partition_is_refused_reported_and_made_anew_by_repair_alone(
    run: Run, root: Path, folder: Path
) -> None:
    with Store.open(root) as store:
        store.topics.create("other")
    (folder / "1").rename(root / "elsewhere")
    with Store.open(root) as store, pytest.raises(Corrupt, match="lakebed topic repair orders"):
        store.topic("orders").partition(1)
    done = run("verify")
    assert done.exit_code == 65
    problem = f"orders: partition 1: corrupt: {folder / '1' / 'segments'}: the folder is missing"
    assert done.out.decode().startswith(problem)
    assert b"2 topics, 3 partitions" in done.out, "the rest was checked"
    assert "the folder is missing" in run("topic", "repair", "orders").lines()[0]
    assert run("topic", "consume", "orders", "--from-beginning").lines() == ["kept 0"]


def test_a_symbolic_link_in_the_place_of_a_topic_is_refused_and_never_followed(
    run: Run, root: Path, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_bytes(b"not ours")
    (root / "topics" / "linked").symlink_to(elsewhere)
    with Store.open(root) as store:
        for use in (store.topic, store.topics.create, store.topics.open, store.topics.delete):
            with pytest.raises(
                Corrupt, match=r"topics/linked: the topic's folder is a symbolic link"
            ):
                use("linked")
    assert run("topic", "produce", "linked", "--create", stdin=b"new\n").exit_code == 65
    assert (elsewhere / "precious").read_bytes() == b"not ours"
    done = run("verify")
    assert done.exit_code == 65
    assert "topic linked: could not be checked" in done.out.decode()


def test_deleting_a_topic_removes_a_link_in_it_and_not_what_it_leads_to(
    run: Run, root: Path, folder: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (folder / "1").rename(elsewhere)
    (folder / "1").symlink_to(elsewhere)
    before = files(elsewhere)
    assert run("topic", "delete", "orders", "--yes").lines() == ["orders: deleted"]
    assert not folder.exists()
    assert files(elsewhere) == before


def test_folders_without_a_file_are_no_topic(run: Run, root: Path, folder: Path) -> None:
    (root / "topics" / "half" / "0" / "segments").mkdir(parents=True)
    assert topic_names(real_disk(), root) == ["orders"]
    assert run("topic", "create", "half", "--partitions", "2").exit_code == 0
    assert run("verify").exit_code == 0


def test_verify_names_the_topic_whose_creation_failed_half_way(
    run: Run, root: Path, folder: Path
) -> None:
    """As an older release left it: the second partition was never opened."""
    for path in (folder / "1").rglob("*"):
        if path.is_file():
            path.unlink()
    done = run("verify")
    assert done.exit_code == 65
    assert "orders: partition 1: mendable: the manifest is missing" in done.out.decode()
