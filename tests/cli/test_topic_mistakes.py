"""What `lakebed topic` and `lakebed group` cannot take: one line, and nothing is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run

pytestmark = pytest.mark.thorough


NAMED = [
    ["topic", "create", "{}"],
    ["topic", "describe", "{}"],
    ["topic", "configure", "{}", "compact=true"],
    ["topic", "delete", "{}", "--yes"],
    ["topic", "produce", "{}"],
    ["topic", "produce", "{}", "--create"],
    ["topic", "consume", "{}", "--from-beginning"],
    ["topic", "consume", "{}", "--group", "g"],
    ["topic", "verify", "{}"],
    ["topic", "repair", "{}"],
    ["topic", "repair", "{}", "--dry-run"],
    ["group", "list", "{}"],
    ["group", "describe", "{}", "g"],
    ["group", "lag", "{}", "g"],
    ["group", "reset", "{}", "g", "--to-end"],
    ["group", "dead-letters", "{}", "g"],
    ["group", "dead-letters", "{}", "g", "--redrive"],
    ["group", "delete", "{}", "g", "--yes"],
]
CREATING = (["topic", "create", "{}"], ["topic", "produce", "{}", "--create"])


def filled(command: list[str], name: str) -> list[str]:
    return [name if word == "{}" else word for word in command]


def files(root: Path) -> set[Path]:
    return set(root.rglob("*"))


@pytest.mark.parametrize("command", NAMED, ids=" ".join)
def test_a_hostile_name_is_refused_and_nothing_is_created(
    run: Run, root: Path, command: list[str]
) -> None:
    run("topic", "create", "orders")
    before = files(root)
    for name in ("", "..", "a/b", "é", "x" * 250, "-\x1b[31m\n"):
        done = run(*command[:2], "--", *filled(command[2:], name)) if name[:1] == "-" else run(
            *filled(command, name)
        )  # fmt: skip
        assert done.out == b""
        assert done.exit_code in (2, 64), name
        assert done.error_line()
    assert files(root) == before


@pytest.mark.parametrize("command", [one for one in NAMED if one not in CREATING], ids=" ".join)
def test_a_missing_topic_is_told_and_not_created(run: Run, root: Path, command: list[str]) -> None:
    done = run(*filled(command, "orders"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line() == f"{root}: no such root (from --root)"
    assert not root.exists()
    run("topic", "create", "other")
    before = files(root)
    done = run(*filled(command, "orders"))
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line().startswith(f"{root}: there is no topic orders")
    assert files(root) == before


def test_a_missing_topic_is_told_with_what_creates_it(run: Run, root: Path) -> None:
    run("topic", "create", "other")
    assert run("topic", "produce", "orders", stdin=b"x\n").error_line() == (
        f"{root}: there is no topic orders; create it with lakebed topic create orders, "
        "or with --create"
    )


def test_a_topic_is_created_once(run: Run) -> None:
    run("topic", "create", "orders")
    done = run("topic", "create", "orders")
    assert (done.exit_code, done.error_line()) == (73, "topic orders already exists")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["--partitions", "0"], 64, "0 partitions: a topic must have 1 to 1000"),
        (["--partitions", "-1"], 64, "-1 partitions"),
        (["--partitions", "10001"], 64, "10001 partitions"),
        (["--partitions", "x"], 2, "'--partitions'"),
        (["--config", "compact"], 78, "expected name=value"),
        (["--config", "compakt=true"], 78, "did you mean compact?"),
        (["--config", "compact=perhaps"], 78, "compact"),
        (["--config", "compact=true", "--config", "compact=false"], 78, "compact is given twice"),
        (["--config", "segment_bytes=1"], 78, "segment_bytes"),
        (["--config", "segment_bytes=1 EiB"], 78, "segment_bytes"),
        (["--config", "retention_ms=-5"], 78, "retention_ms"),
        (["--config", "ack=after_replicated"], 78, "replication is not supported yet"),
        (
            ["--config", "message_bytes_max=2MiB", "--config", "request_bytes_max=1MiB"],
            78,
            "must not exceed",
        ),
    ],
    ids=str,
)
def test_a_wrong_number_or_setting_creates_nothing(
    run: Run, root: Path, arguments: list[str], exit_code: int, told: str
) -> None:
    done = run("topic", "create", "orders", *arguments)
    assert (done.exit_code, done.out) == (exit_code, b"")
    assert told in done.error_line()
    assert not root.exists()
    run("topic", "create", "other")
    if arguments[0] == "--config":
        settings = [text for text in arguments if text != "--config"]
        done = run("topic", "configure", "other", *settings)
        assert (done.exit_code, told in done.error_line()) == (exit_code, True)
        assert run("topic", "describe", "other", as_json=True).document()["own_settings"] == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["--key-separator", ""], 64, "--key-separator"),
        (["--null-value", "x"], 64, "--key-separator"),
        (["--partition", "3"], 66, "orders: there is no partition 3"),
        (["--partition", "-1"], 66, "there is no partition -1"),
        (["--ack", "never"], 64, "must be one of after_write, after_fsync"),
        (["--ack", "after_replicated"], 64, "replication is not supported yet"),
    ],
    ids=str,
)
def test_a_wrong_option_of_produce_appends_nothing(
    run: Run, arguments: list[str], exit_code: int, told: str
) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    done = run("topic", "produce", "orders", *arguments, stdin=b"a:b\n")
    assert (done.exit_code, done.out) == (exit_code, b"")
    assert told in done.error_line()
    assert run("topic", "consume", "orders", "--from-beginning").out == b""


def test_a_line_without_the_separator_is_told_by_number_and_earlier_ones_are_kept(
    run: Run,
) -> None:
    run("topic", "create", "orders")
    done = run("topic", "produce", "orders", "--key-separator", ":", stdin=b"a:1\nb:2\n3\nd:4\n")
    assert done.error_line() == (
        "line 3 has no key separator; kept before it: 2 messages, up to 0:1"
    )
    assert done.exit_code == 64
    assert run("topic", "consume", "orders", "--from-beginning").out == b"1\n2\n"


def test_a_line_too_long_for_a_message_is_told_by_number(run: Run) -> None:
    run("topic", "create", "orders", "--config", "message_bytes_max=1000")
    fitting, too_long = b"x" * 1000, b"y" * 1001
    done = run("topic", "produce", "orders", stdin=fitting + b"\n" + too_long + b"\nz\n")
    assert done.error_line() == (
        "line 2 is longer than the maximum message of 1000 bytes; "
        "kept before it: 1 message, up to 0:0"
    )
    assert done.exit_code == 64
    assert run("topic", "consume", "orders", "--from-beginning").out == fitting + b"\n"
    # With a key the block of headers counts, too.
    keyed = b"k" * 100 + b":" + b"v" * 892
    run("topic", "produce", "orders", "--key-separator", ":", stdin=keyed + b"\n")
    done = run("topic", "produce", "orders", "--key-separator", ":", stdin=keyed + b"v\n")
    assert done.error_line().startswith("line 1 is longer than the maximum message of 992")


def test_a_line_that_never_ends_is_refused_before_all_of_it_is_read(run: Run) -> None:
    run("topic", "create", "orders", "--config", "message_bytes_max=1000")
    done = run("topic", "produce", "orders", stdin=b"ok\n" + b"x" * (3 << 20))
    assert done.error_line().startswith("line 2 is longer than the maximum message")
    assert run("topic", "consume", "orders", "--from-beginning").out == b"ok\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "told"),
    [
        (["--from-beginning", "--offset", "1"], 64, "cannot be combined"),
        (["--offset", "1", "--since", "5"], 64, "cannot be combined"),
        (["--offset", "0"], 64, "orders has 2 partitions: give a --partition"),
        (["--offset", "4", "--partition", "0"], 66, "offset 4 is out of range (allowed: 0 to 3)"),
        (["--offset", "-1"], 2, "'--offset'"),
        (["--offset", str(1 << 70), "--partition", "0"], 66, "is out of range"),
        (["--partition", "2", "--from-beginning"], 66, "there is no partition 2"),
        (["--since", "yesterday"], 64, "'yesterday' is not a time"),
        (["--since", "9" * 40], 64, "not a time"),
        (["--since", "1700000000000000000"], 64, "ms since 1970"),
        (["--max", "-1"], 2, "'--max'"),
        (["--group", "g", "--from-beginning"], 64, "to move a group, use lakebed group reset"),
        (
            ["--group", "g", "--partition", "0"],
            64,
            "--group continues at the position of the group",
        ),
        (["--group", ""], 64, "the name of a group must not be empty"),
        (["--group", "g" * 40_000], 64, "the length of a group name"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_wrong_option_of_consume_prints_nothing(
    run: Run, arguments: list[str], exit_code: int, told: str
) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    run("topic", "produce", "orders", "--partition", "0", stdin=b"1\n2\n3\n")
    done = run("topic", "consume", "orders", *arguments)
    assert (done.exit_code, done.out) == (exit_code, b"")
    assert told in done.error_line()


def test_what_cannot_be_undone_asks_for_a_yes(run: Run) -> None:
    run("topic", "create", "orders")
    run("topic", "consume", "orders", "--group", "billing")
    for command in (["topic", "delete", "orders"], ["group", "delete", "orders", "billing"]):
        done = run(*command)
        assert done.exit_code == 64
        assert done.error_line().endswith("cannot be undone: confirm with --yes")
    assert run("group", "list", as_json=True).document()["groups"][0]["group"] == "billing"


def test_beside_a_writer_everything_works_but_the_repair_of_what_it_has_open(
    run: Run, root: Path
) -> None:
    with Store.open(root) as store:
        topic = store.topic("orders")
        topic.append_batch([b"a", b"b"]).result()
        group = topic.group("billing")
        group.ack(group.lease(max_messages=1)[0])
        assert run("topic", "list").exit_code == 0
        assert run("topic", "describe", "orders").exit_code == 0
        assert run("topic", "verify", "orders").exit_code == 0
        assert run("topic", "consume", "orders", "--from-beginning").out == b"a\nb\n"
        assert run("group", "lag", "orders", "billing", as_json=True).document()["lag"] == 1
        assert run("group", "describe", "orders", "billing").exit_code == 0
        assert run("group", "dead-letters", "orders", "billing").exit_code == 0
        refused = run("topic", "repair", "orders")
        assert (refused.exit_code, refused.out) == (75, b"")
        assert "the topic is in use by the program that has the store open" in refused.error_line()
        for command in (
            ["topic", "create", "other"],
            ["topic", "configure", "orders", "compact=true"],
            ["topic", "produce", "orders"],
            ["topic", "consume", "orders", "--group", "billing"],
            ["topic", "repair", "orders", "--dry-run"],
            ["group", "reset", "orders", "billing", "--to-end"],
            ["group", "dead-letters", "orders", "billing", "--redrive"],
            ["group", "delete", "orders", "billing", "--yes"],
            ["topic", "delete", "orders", "--yes"],
        ):
            done = run(*command)
            assert (done.exit_code, done.err) == (0, b""), command
        assert store.topics.names() == ["other"]


def test_a_store_of_a_newer_version_is_refused(run: Run, root: Path) -> None:
    run("topic", "create", "orders")
    path = root / "store.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"version": document["version"] + 1}))
    for command in (
        ["topic", "list"],
        ["topic", "produce", "orders"],
        ["topic", "consume", "orders", "--from-beginning"],
        ["group", "list"],
    ):
        done = run(*command)
        assert (done.exit_code, done.out) == (65, b"")
        assert "store.json" in done.error_line()


def test_a_topic_of_a_newer_version_is_refused(run: Run, root: Path) -> None:
    run("topic", "create", "orders")
    path = root / "topics" / "orders" / "topic.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 7'))
    for command in (["topic", "describe"], ["topic", "produce"], ["topic", "verify"]):
        done = run(*command, "orders")
        assert (done.exit_code, done.out) == (65, b"")
        assert "found 7" in done.error_line()


def test_as_json_a_mistake_is_one_document(run: Run) -> None:
    run("topic", "create", "orders")
    done = run("topic", "describe", "a/b", as_json=True)
    error = json.loads(done.err)["error"]
    assert (error["kind"], error["exit_code"], done.exit_code) == ("BadName", 64, 64)
    error = json.loads(run("group", "lag", "orders", "g", as_json=True).err)["error"]
    assert error["kind"] == "NotFound"
