"""`lakebed verify`: all of a store, its damage, and marks through whoever has it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.seglake.model import State
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store_check import verify_store
from lakebed.store.store_check_lines import report_lines
from tests.cli.in_process import Run
from tests.store.whole_stores import DAMAGES, open_store, write_store


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


def test_beside_a_writer_it_is_the_writer_who_marks(run: Run, store: Path) -> None:
    DAMAGES["chunk"](store)
    with open_store(store):
        marked = run("verify", "--mark", as_json=True).document()["marked"]
    assert [one["key"] for one in marked] == ["big"]
    assert state(store) is State.DAMAGED


def test_a_root_that_is_not_there_is_told_in_one_line(run: Run) -> None:
    assert run("verify").exit_code == 66


def state(root: Path) -> State:
    with ReadOnlyStore(root) as store:
        return store.bucket("photos").head("big").state
