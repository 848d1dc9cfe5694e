"""`lakebed group`: each command and what it prints, in the tests' own process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakebed.host.store import Store
from lakebed.stroma.config import GroupConfig
from tests.cli.in_process import Run, runner

pytestmark = pytest.mark.thorough

CONSUME = ("topic", "consume", "orders", "--group", "billing")
GROUP = ("orders", "billing")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    """Of a topic with two partitions, five messages each, of which the group has settled three."""
    run = runner(root, monkeypatch, capsysbinary)
    run("topic", "create", "orders", "--partitions", "2")
    for number in ("0", "1"):
        lines = "".join(f"{number}-{index}\n" for index in range(5)).encode()
        run("topic", "produce", "orders", "--partition", number, stdin=lines)
    assert len(run(*CONSUME, "--max", "3").out.splitlines()) == 3
    return run


def lag(run: Run) -> Any:
    return run("group", "lag", *GROUP, as_json=True).document()["lag"]


def test_groups_are_listed_with_their_lag(run: Run) -> None:
    run("topic", "create", "other")
    run("topic", "consume", "other", "--group", "a/b c")
    assert run("group", "list").lines() == [
        "topic   group    partitions  lag  in flight",
        "orders  billing  2           7    0",
        "other   a/b c    1           0    0",
    ]
    assert run("group", "list", "orders", as_json=True).document()["groups"] == [
        {"topic": "orders", "group": "billing", "partitions": 2, "lag": 7, "in_flight": 0,
         "problem": None}
    ]  # fmt: skip


def test_a_group_is_described_by_partition(run: Run) -> None:
    heading, *rows = run("group", "describe", *GROUP).lines()
    assert heading == (
        "partition  acked until  high watermark  lag  in flight  waiting  exhausted  acked ahead"
    )
    assert sorted(row.split()[1:4] for row in rows) == [["0", "5", "5"], ["3", "5", "2"]]
    found = run("group", "describe", *GROUP, as_json=True).document()
    assert {one["partition"]: one["lag"] for one in found["partitions"]} == {
        one["partition"]: one["lag"]
        for one in run("group", "lag", *GROUP, as_json=True).document()["partitions"]
    }
    assert run("group", "lag", *GROUP).lines()[-1] == "all        7"


def test_what_is_leased_and_delayed_is_counted(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        group = store.topic("orders").group("billing")
        leased = group.lease(max_messages=4)
        group.nack(leased[0], delay_ms=600_000)
        found = run("group", "describe", *GROUP, as_json=True).document()["partitions"]
        assert sum(one["in_flight"] for one in found) == 3
        assert sum(one["waiting"] for one in found) == 1
        assert run("group", "list").lines()[1].split() == ["orders", "billing", "2", "7", "3"]


def test_a_group_is_moved_and_consumes_from_there(run: Run) -> None:
    assert run("group", "reset", *GROUP, "--to-beginning").lines() == [
        "orders billing: partition 0 continues at 0",
        "orders billing: partition 1 continues at 0",
    ]
    assert lag(run) == 10
    assert len(run(*CONSUME).out.splitlines()) == 10
    done = run("group", "reset", *GROUP, "--to-offset", "4", "--partition", "1", as_json=True)
    assert done.document()["partitions"] == [{"partition": 1, "offset": 4}]
    assert run(*CONSUME).out == b"1-4\n"
    run("group", "reset", *GROUP, "--to-beginning")
    run("group", "reset", *GROUP, "--to-end", "--partition", "0")
    assert lag(run) == 5
    run("group", "reset", *GROUP, "--to-end")
    assert (lag(run), run(*CONSUME).out) == (0, b"")
    run("topic", "produce", "orders", "--partition", "0", stdin=b"new\n")
    assert run(*CONSUME).out == b"new\n"


def test_a_group_is_moved_to_a_moment(run: Run, root: Path) -> None:
    run("topic", "create", "timed")
    with Store.open(root) as store:
        moments = [1_700_000_000_000 + 1000 * index for index in range(5)]
        values = [b"%d" % index for index in range(5)]
        store.topic("timed").append_batch(values, timestamps_ms=moments).result()
    run("topic", "consume", "timed", "--group", "g")
    for moment in ("2023-11-14T22:13:23Z", "1700000003000"):
        run("group", "reset", "timed", "g", "--to-time", moment)
        assert run("topic", "consume", "timed", "--group", "g").out == b"3\n4\n"


def test_a_group_can_be_placed_before_it_exists_if_asked_for(run: Run) -> None:
    done = run("group", "reset", "orders", "new", "--to-end")
    assert (done.exit_code, done.error_line()) == (66, "the topic orders has no group new")
    run("group", "reset", "orders", "new", "--to-end", "--create")
    assert run("topic", "consume", "orders", "--group", "new").out == b""


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        ([], 64, "give exactly one of --to-beginning, --to-end, --to-offset and --to-time"),
        (["--to-end", "--to-beginning"], 64, "one of"),
        (["--to-offset", "0", "--to-time", "5"], 64, "one of"),
        (["--to-offset", "0"], 64, "orders has 2 partitions: give a --partition"),
        (["--to-offset", "6", "--partition", "0"], 64, "must be 0 to 5"),
        (["--to-offset", "-1", "--partition", "0"], 2, "'--to-offset'"),
        (["--to-end", "--partition", "2"], 66, "there is no partition 2"),
        (["--to-time", "soon"], 64, "'soon' is not a time"),
        (["--to-time", "9223372036855"], 64, "April 2262"),
    ],
    ids=str,
)
def test_a_wrong_place_moves_nothing(
    run: Run, arguments: list[str], exit_code: int, told: str
) -> None:
    done = run("group", "reset", *GROUP, *arguments)
    assert (done.exit_code, done.out) == (exit_code, b"")
    assert told in done.error_line()
    assert lag(run) == 7


@pytest.mark.parametrize(
    "command",
    [
        ["describe"],
        ["lag"],
        ["reset", "--to-end"],
        ["dead-letters"],
        ["dead-letters", "--redrive"],
        ["delete", "--yes"],
    ],
    ids=" ".join,
)
def test_a_missing_group_is_told_and_not_created(run: Run, root: Path, command: list[str]) -> None:
    before = sorted((root / "groups").iterdir())
    name, *options = command
    for group in ("missing", "../billing", "billing\n", "x" * 300):
        done = run("group", name, "orders", group, *options)
        assert (done.exit_code, done.out) == (66, b"")
        assert done.error_line().startswith("the topic orders has no group ")
    assert sorted((root / "groups").iterdir()) == before


def test_dead_letters_are_listed_sent_back_and_delivered_again(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_STROMA_DELIVERY_COUNT_MAX", "2")
    run("topic", "produce", "jobs", "--create", "--key-separator", ":",
        stdin=b"k:good\nk:bad\nk:\xff\xfe%s\n" % (b"z" * 100))  # fmt: skip
    with Store.open(root) as store:
        group = store.topic("jobs").group("work")
        for _ in range(3):
            for message in group.lease():
                group.ack(message) if message.value == b"good" else group.nack(message)
    jobs = ("group", "dead-letters", "jobs", "work")
    assert run("group", "lag", "jobs", "work", as_json=True).document()["lag"] == 0
    heading, first, second, last = run(*jobs).lines()
    assert heading.split() == ["from", "deliveries", "written", "key", "value"]
    assert (first.split()[:2], first.split()[3:]) == (["0:1", "2"], ["k", "bad"])
    assert second.split()[-1] == "\\xff\\xfe" + "z" * 58 + "…"
    assert last == "jobs work: 2 dead letters"
    [letter] = run(*jobs, "--max", "1", as_json=True).document()["dead_letters"]
    assert (letter["partition"], letter["offset"], letter["value"]) == (0, 1, "bad")
    assert letter["delivery_count"] == 2
    # The topic they are in is one like others; the group that sends them back is not shown.
    assert [one["group"] for one in _groups(run)] == ["work", "billing"]
    assert run(*jobs, "--redrive", "--max", "1").lines() == ["jobs work: sent back 1 dead letter"]
    assert run(*jobs).lines()[-1] == "jobs work: 1 dead letter"
    assert run(*jobs, "--redrive", as_json=True).document()["redriven"] == 1
    assert run(*jobs).lines() == ["jobs work: 0 dead letters"]
    again = run("topic", "consume", "jobs", "--group", "work").out
    assert again == b"bad\n\xff\xfe" + b"z" * 100 + b"\n"


def _groups(run: Run) -> Any:
    return run("group", "list", as_json=True).document()["groups"]


def test_a_deleted_group_starts_over(run: Run) -> None:
    assert run("group", "delete", *GROUP, "--yes").lines() == ["orders billing: deleted"]
    assert _groups(run) == []
    assert len(run(*CONSUME).out.splitlines()) == 10


def test_a_damaged_group_is_told_and_hides_none_of_the_others(run: Run, root: Path) -> None:
    run("topic", "consume", "orders", "--group", "other")
    (root / "groups" / "orders-0_billing.snap").write_bytes(b"KSNAP\0\0\0" + bytes(100))
    done = run("group", "list")
    assert done.exit_code == 65
    rows = done.out.decode().splitlines()
    assert rows[1].split() == ["orders", "billing", "2", "-", "-"]
    assert rows[2].split() == ["orders", "other", "2", "0", "0"]
    assert rows[3].startswith("orders billing: ")
    done = run("group", "lag", *GROUP)
    assert done.exit_code == 65
    assert "orders-0_billing.snap" in done.error_line()


def test_the_limit_of_deliveries_is_the_stores(
    run: Run, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(root, group_config=GroupConfig()) as store:
        group = store.topic("orders").group("billing")
        group.nack_all(group.lease(max_messages=2))
    monkeypatch.setenv("LAKEBED_STROMA_DELIVERY_COUNT_MAX", "1")
    found = run("group", "describe", *GROUP, as_json=True).document()["partitions"]
    assert sum(one["exhausted"] for one in found) == 2


def test_leases_are_listed_and_released(run: Run, root: Path) -> None:
    assert run("group", "leases", *GROUP).lines() == ["partition  offsets  until  deliveries"]
    with Store.open(root) as store:
        store.topics.open("orders").group("billing").lease(max_messages=100, lease_ms=3_600_000)
    heading, *rows = run("group", "leases", *GROUP).lines()
    assert heading.split() == ["partition", "offsets", "until", "deliveries"]
    document = run("group", "leases", *GROUP, as_json=True).document()
    assert [len(row.split()) for row in rows] == [4] * len(document["leases"])
    assert sum(lease["end"] - lease["start"] for lease in document["leases"]) == 7
    (some,) = run("group", "leases", *GROUP, "--max", "1", as_json=True).document()["leases"]
    one = ("--partition", str(some["partition"]), "--offset", str(some["start"]))
    assert run("group", "release", *GROUP, *one).lines() == ["orders billing: released 1 message"]
    assert run("group", "release", *GROUP, as_json=True).document()["released"] == 6
    assert run("group", "release", *GROUP, "--offset", "1").exit_code == 64
    assert run("group", "leases", "orders", "missing").exit_code == 66
