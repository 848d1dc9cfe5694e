"""`lakebed verify`: all of a store, its damage, and marks through whoever has it open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.seglake.model import State
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store_check import verify_store
from lakebed.store.store_check_lines import report_lines
from tests.cli.in_process import Run
from tests.seglake.damaged_lakes import flip
from tests.store.backup.backups import write_everything
from tests.store.whole_stores import DAMAGES, flip_chunk, open_store, write_store


@pytest.fixture
def store(root: Path) -> Path:
    write_store(root)
    return root


def test_a_whole_store_is_told_as_whole(run: Run, store: Path) -> None:
    assert run("verify").lines() == report_lines(verify_store(store))
    document = run("verify", as_json=True).document()
    assert document["ok"]
    assert [log["log"] for log in document["logs"]] == ["orders", "other"]
    assert document["logs"][0]["manifest"]["ok"]
    assert document["topics"][0]["records"] == 120
    assert (document["objects"]["versions"], document["unchecked"]) == (13, [])
    assert run("verify", "--no-tier2").exit_code == 0


def test_damage_in_every_engine_is_told_with_exit_code_65(run: Run, store: Path) -> None:
    for damage in DAMAGES.values():
        damage(store)
    done = run("verify")
    assert done.exit_code == 65
    lines = done.out.decode().splitlines()
    assert lines == report_lines(verify_store(store))
    for place in ("segments/00000000000000000004_", "/warm/", "store://", "topics/events/0/"):
        assert any(place in line for line in lines), place
    assert any(line.startswith("object photos/big, version ") for line in lines)
    document = run("verify", as_json=True)
    assert document.exit_code == 65
    assert not document.document()["ok"]


def test_only_with_mark_damaged_objects_are_marked(run: Run, store: Path) -> None:
    DAMAGES["chunk"](store)
    assert run("verify").exit_code == 65
    assert state(store) is State.ACTIVE
    done = run("verify", "--mark")
    assert done.exit_code == 65
    assert done.out.decode().splitlines()[0].endswith(": marked as damaged")
    assert state(store) is State.DAMAGED
    assert b"marked" not in run("verify").out


def test_with_mark_the_mark_of_an_object_that_is_whole_again_is_cleared(
    run: Run, store: Path
) -> None:
    flip_chunk(store, "photos", "big")
    run("verify", "--mark")
    assert state(store) is State.DAMAGED
    flip_chunk(store, "photos", "big")  # as from a backup
    assert "marked as damaged, but intact" in run("verify").out.decode()
    assert state(store) is State.DAMAGED
    done = run("verify", "--mark")
    assert done.exit_code == 0
    assert (
        done.out.decode()
        .splitlines()[0]
        .endswith("not marked, because the writer reads it without error")
    )
    assert state(store) is State.ACTIVE


def test_beside_a_writer_it_is_the_writer_who_marks(run: Run, store: Path) -> None:
    DAMAGES["chunk"](store)
    with open_store(store):
        marked = run("verify", "--mark", as_json=True).document()["marked"]
    assert [one["key"] for one in marked] == ["big"]
    assert state(store) is State.DAMAGED


def test_a_mark_that_cannot_be_cleared_is_an_error(run: Run, store: Path) -> None:
    flip_chunk(store, "photos", "big")
    run("verify", "--mark")
    flip_chunk(store, "photos", "big")  # as from a backup
    (store / "lakebed.lock").unlink()
    (store / "lakebed.lock").mkdir()  # nobody can open it for writing
    done = run("verify", "--mark")
    assert done.exit_code not in (0, 65)
    assert done.error_line().startswith("damaged objects were not marked: ")
    assert run("verify").exit_code == 0


def test_what_was_found_is_told_also_if_it_cannot_be_marked(run: Run, store: Path) -> None:
    DAMAGES["chunk"](store)
    expected = report_lines(verify_store(store))
    (store / "lakebed.lock").unlink()
    (store / "lakebed.lock").mkdir()  # nobody can open it for writing
    done = run("verify", "--mark")
    as_document = run("verify", "--mark", as_json=True)
    assert done.exit_code == as_document.exit_code == 65
    assert done.out.decode().splitlines() == expected
    assert done.error_line().startswith("damaged objects were not marked: ")
    document = json.loads(as_document.out)
    assert document["objects"]["problems"]
    assert document["mark_failure"] in done.error_line()
    assert state(store) is State.ACTIVE


def test_damage_of_groups_and_of_the_key_of_secrets_is_told(run: Run, root: Path) -> None:
    write_everything(root)
    assert run("verify").exit_code == 0
    assert "1 group, 2 partitions" in run("verify").out.decode()
    delta = max((root / "groups").glob("*.delta"), key=lambda path: path.stat().st_size)
    flip(delta, 70)
    flip(root / "secret.key", 30)
    done = run("verify")
    assert done.exit_code == 65
    lines = done.out.decode().splitlines()
    assert any(f"{delta.name}: at byte " in line for line in lines)
    assert any(line.startswith("secret key ") for line in lines)
    document = json.loads(run("verify", as_json=True).out)
    assert not document["groups"]["ok"]
    assert document["groups"]["problems"][0]["verdict"] in ("corrupt", "torn")
    assert document["objects"]["problems"][0]["kind"] == "secret key"


def test_a_root_that_is_not_there_is_told_in_one_line(run: Run) -> None:
    assert run("verify").exit_code == 66


def state(root: Path) -> State:
    with ReadOnlyStore(root) as store:
        return store.bucket("photos").head("big").state
