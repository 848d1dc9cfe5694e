"""`lakebed manifest` asked for what is not there: one line, an exit code, nothing is created."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.host.store import Store
from tests.cli.in_process import Run
from tests.cli.manifest_stores import (
    CONFIG,
    contents,
    fill_chunks,
    folder_of,
    journal_of,
    snapshot_files,
    write_chunks,
    write_segment,
    write_segments,
)

pytestmark = pytest.mark.thorough

COMMANDS = {
    "inspect": ["inspect"],
    "verify": ["verify"],
    "history": ["history"],
    "state": ["state"],
    "as of": ["state", "--as-of", "0:64"],
}
OFF = AofConfig(manifest=ManifestConfig(manifest_log_enabled=False))


def arguments(name: str, log: str) -> list[str]:
    """A whole command line for that log."""
    command, *options = COMMANDS[name]
    segment = ["0"] if command == "history" else []
    return ["manifest", command, *options, "--", log, *segment]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_that_does_not_exist_is_one_line_and_nothing_is_created(
    run: Run, root: Path, command: str
) -> None:
    done = run(*arguments(command, "nope"))
    assert (done.exit_code, done.out) == (66, b"")
    assert "no such root" in done.error_line()
    assert not root.exists()
    root.mkdir()
    done = run(*arguments(command, "nope"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line() == f"{root}: there is no log nope"
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", "a\nb", "\x1b[2J", "ü", "\udcff"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_hostile_name_is_one_line(run: Run, root: Path, command: str, name: str) -> None:
    root.mkdir()
    done = run(*arguments(command, name))
    assert (done.exit_code, done.out) == (64, b"")
    assert done.error_line().startswith("log name ")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_log_has_no_manifest_log_yet(run: Run, root: Path, command: str) -> None:
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")
    before = contents(root)
    done = run(*arguments(command, "orders"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line() == "orders: its manifest log is still empty"
    assert contents(root) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_whose_manifest_log_was_never_on_says_so(run: Run, root: Path, command: str) -> None:
    with Store.open(root, config=OFF) as store:
        write_segment(store.log("orders"))
    done = run(*arguments(command, "orders"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line() == ("orders: its manifest log is switched off and empty")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_from_before_there_were_manifest_logs_says_so(
    run: Run, root: Path, command: str
) -> None:
    with Store.open(root, config=OFF) as store:
        write_segment(store.log("orders"))
    (root / "aof" / "orders" / "log.json").unlink()
    done = run(*arguments(command, "orders"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line().startswith(
        "log orders has no manifest log, because it was last written"
    )


def test_a_manifest_log_that_was_removed_is_told_with_what_is_to_come(run: Run, root: Path) -> None:
    write_segments(root, 1)
    shutil.rmtree(folder_of(root))
    done = run("manifest", "verify", "orders")
    assert done.exit_code == 66
    assert done.error_line().endswith("opening the log for writing records its segments")
    write_segments(root, 1)
    assert run("manifest", "verify", "orders").exit_code == 0


@pytest.mark.parametrize(
    ("command", "message", "exit_code"),
    [
        (["inspect", "orders", "--from", "x"], "not a position: 'x'", 64),
        (["inspect", "orders", "--from", "1:2:3"], "not a position", 64),
        (["inspect", "orders", "--from", "-1:64"], "not a position", 64),
        (["inspect", "orders", "--from", "٣:64"], "not a position", 64),
        (["inspect", "orders", "--from", "1" * 40 + ":64"], "not a position", 64),
        (["inspect", "orders", "--from", "7:64"], "no chunk 7; it has chunks 0 to 0", 66),
        (["inspect", "orders", "--chunk", "7"], "no chunk 7; it has chunks 0 to 0", 66),
        (["inspect", "orders", "--chunk", "-1"], "--chunk", 2),
        (["inspect", "orders", "--chunk", "0", "--from", "0:64"], "cannot be combined", 64),
        (["inspect", "orders", "--type", "Sealed"], "'Sealed' is not a record type", 64),
        (["inspect", "orders", "--type", "65536"], "is not a record type", 64),
        (["inspect", "orders", "--limit", "0"], "--limit", 2),
        (["inspect", "orders", "--segment", "x"], "--segment", 2),
        (["history", "orders"], "SEGMENT", 2),
        (["history", "orders", "x"], "SEGMENT", 2),
        (["history", "orders", "18446744073709551616"], "SEGMENT", 2),
        (
            ["history", "orders", "9"],
            "orders: nothing is recorded about segment 9; there are records about segments 0 to 1",
            66,
        ),
        (["state", "orders", "--as-of", "yesterday"], "not a time", 64),
        (["state", "orders", "--as-of", ""], "not a time", 64),
        (["state", "orders", "--as-of", "1:2:3"], "not a time", 64),
        (["state", "orders", "--as-of", "0:65"], "no record begins at 0:65; the nearest", 66),
        (["state", "orders", "--as-of", "0:0"], "0:0 is before the history, which begins", 66),
        (["state", "orders", "--as-of", "5:64"], "5:64 is after the end", 66),
        (["state", "orders", "--as-of", "1990-01-01"], "history, which begins at 0:64, 20", 66),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line(
    run: Run, root: Path, command: list[str], message: str, exit_code: int
) -> None:
    write_segments(root, 1)
    before = contents(root)
    done = run("manifest", *command)
    assert message in done.error_line()
    assert (done.exit_code, done.out) == (exit_code, b"")
    assert contents(root) == before


def test_a_history_whose_start_is_gone_says_where_it_begins(run: Run, root: Path) -> None:
    write_chunks(root, until=4, snapshot_at=2)
    first = run("manifest", "inspect", "orders", as_json=True).document()["snapshots"][0]
    for index in (0, 1):
        (folder_of(root) / f"{index:020}.mlog").unlink()
    assert run("manifest", "verify", "orders").exit_code == 0
    for moment in ("1:64", "1990-01-01T00:00:00Z"):
        done = run("manifest", "state", "orders", "--as-of", moment)
        assert (done.exit_code, done.out) == (66, b"")
        wanted = f"history, which begins at {first['position']}, {first['last_record_at']}"
        assert wanted in done.error_line()
    document = run("manifest", "state", "orders", "--as-of", first["position"], as_json=True)
    assert [one["segment_id"] for one in document.document()["segments"]] == [0, 1]
    steps = run("manifest", "history", "orders", "1", as_json=True).document()["steps"]
    assert steps[0]["snapshot"] == first["snapshot"]
    assert steps[0]["what"] == f"as snapshot {first['snapshot']} has it: sealed, tiers 0"
    for path in snapshot_files(root):
        path.unlink()
    done = run("manifest", "state", "orders", "--as-of", "3:64")
    assert done.error_line() == (
        "orders: there is no history: the first chunks are missing, and no snapshot is readable"
    )


def test_a_snapshot_taken_where_the_next_chunk_begins_is_a_moment(run: Run, root: Path) -> None:
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segment(log)
        fill_chunks(log, until=0)
        journal = journal_of(log)
        journal.rotate()
        journal.commit()
        place = str(journal.end)
        document = run("manifest", "state", "orders", "--as-of", place, as_json=True).document()
        assert [one["segment_id"] for one in document["segments"]] == [0]
        journal.take_snapshot()
        journal.commit()
        assert run("manifest", "verify", "orders").exit_code == 0
    assert run("manifest", "verify", "orders").exit_code == 0
