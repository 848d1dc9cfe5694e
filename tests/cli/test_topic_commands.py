"""`lakebed topic`, each command and what it prints, in the tests' own process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.in_process import Run

LINES = b"first\nsecond\nthird\n"


@pytest.fixture
def orders(run: Run) -> str:
    """A topic with three messages in one partition."""
    run("topic", "create", "orders")
    run("topic", "produce", "orders", stdin=LINES)
    return "orders"


# create, list, describe, configure, delete


def test_a_topic_is_created_listed_described_and_deleted(run: Run) -> None:
    created = run("topic", "create", "orders", "--partitions", "3", "--config", "retention_ms=7d")
    assert created.lines() == ["orders: created, 3 partitions"]
    run("topic", "produce", "orders", "--partition", "1", stdin=LINES)
    assert run("topic", "list").lines() == [
        "topic   partitions  offsets  bytes  groups",
        "orders  3           3        328    0",
    ]
    lines = run("topic", "describe", "orders").lines()
    assert lines[4:8] == [
        "partition  start  high watermark  segments  bytes",
        "0          0      0               1         68",
        "1          0      3               1         192",
        "2          0      0               1         68",
    ]
    settings = {tuple(line.split()) for line in lines[10:]}
    assert {("retention_ms", "604800000", "topic"), ("compact", "false", "store")} <= settings
    assert run("topic", "delete", "orders", "--yes").lines() == ["orders: deleted"]
    assert run("topic", "list").lines() == ["topic  partitions  offsets  bytes  groups"]


def test_the_documents_have_the_same_facts(run: Run) -> None:
    created = run("topic", "create", "orders", "--config", "compact=true", as_json=True).document()
    assert (created["partitions"], created["settings"]) == (1, {"compact": True})
    run("topic", "produce", "orders", stdin=LINES)
    run("topic", "consume", "orders", "--group", "billing")
    listed = run("topic", "list", as_json=True).document()
    assert listed["topics"] == [
        {"topic": "orders", "partitions": 1, "offsets": 3, "bytes": 192, "groups": ["billing"]}
    ]
    found = run("topic", "describe", "orders", as_json=True).document()
    assert found["topic_id"] == created["topic_id"]
    assert found["partitions"] == [
        {"partition": 0, "start_offset": 0, "high_watermark": 3, "segments": 1, "bytes": 192}
    ]
    assert found["own_settings"] == ["compact"]
    assert (found["settings"]["compact"], found["settings"]["segment_bytes"]) == (True, 256 << 20)
    deleted = run("topic", "delete", "orders", "--yes", as_json=True).document()
    assert deleted == {"topic": "orders", "deleted": True}


def test_settings_are_changed_one_by_one(run: Run) -> None:
    run("topic", "create", "orders", "--config", "segment_bytes=32KiB")
    done = run("topic", "configure", "orders", "compact=true", "retention_bytes=1GiB")
    assert done.lines() == ["orders: compact is true", "orders: retention_bytes is 1073741824"]
    found = run("topic", "describe", "orders", as_json=True).document()
    assert found["own_settings"] == ["segment_bytes", "retention_bytes", "compact"]
    run("topic", "configure", "orders", "compact=false")
    found = run("topic", "describe", "orders", as_json=True).document()
    assert found["settings"]["compact"] is False
    assert found["settings"]["segment_bytes"] == 32 * 1024


def test_the_settings_of_the_store_count_for_a_topic_that_has_none(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text("[keratin]\nretention_ms = 5000\n")
    run("topic", "create", "orders")
    found = run("topic", "describe", "orders", as_json=True).document()
    assert found["settings"]["retention_ms"] == 5000
    assert found["own_settings"] == []


def test_a_damaged_topic_hides_none_of_the_others(run: Run, root: Path, orders: str) -> None:
    run("topic", "create", "broken")
    (root / "topics" / "broken" / "topic.json").write_text("{")
    done = run("topic", "list")
    assert done.exit_code == 65
    assert [line.split()[0] for line in done.out.decode().splitlines()] == [
        "topic", "orders", "broken:",
    ]  # fmt: skip
    assert list(run("topic", "list", as_json=True).document()["problems"]) == ["broken"]


# produce and consume


def test_what_is_produced_is_printed_again(run: Run) -> None:
    run("topic", "create", "orders")
    assert run("topic", "produce", "orders", stdin=LINES).lines() == [
        "orders: appended 3 messages, up to 0:2"
    ]
    assert run("topic", "consume", "orders", "--from-beginning").out == LINES


def test_ten_thousand_lines_of_any_bytes_come_back_as_they_were(run: Run) -> None:
    lines = b"".join(
        bytes(byte for byte in number.to_bytes(4, "big") * (number % 4) if byte != 10) + b"\n"
        for number in range(10_000)
    )
    document = run("topic", "produce", "orders", "--create", stdin=lines, as_json=True).document()
    assert document["messages"] == 10_000
    assert document["partitions"] == [
        {"partition": 0, "messages": 10_000, "first_offset": 0, "last_offset": 9999}
    ]
    assert run("topic", "consume", "orders", "--from-beginning").out == lines


def test_an_empty_line_is_an_empty_message_and_the_last_needs_no_newline(run: Run) -> None:
    run("topic", "produce", "orders", "--create", stdin=b"\n\none\n\ntwo")
    assert run("topic", "consume", "orders", "--from-beginning").out == b"\n\none\n\ntwo\n"
    run("topic", "produce", "other", "--create", stdin=b"")
    assert run("topic", "consume", "other", "--from-beginning").out == b""


def test_keys_choose_the_partition_and_come_back(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "3")
    lines = b"".join(b"key %d=value=%d\n" % (number % 7, number) for number in range(1000))
    document = run(
        "topic", "produce", "orders", "--key-separator", "=", stdin=lines, as_json=True
    ).document()
    assert sum(one["messages"] for one in document["partitions"]) == 1000
    assert len(document["partitions"]) == 3
    found = run("topic", "consume", "orders", "--from-beginning", "--key-separator", "=").out
    assert sorted(found.splitlines()) == sorted(lines.splitlines())
    by_key: dict[bytes, list[bytes]] = {}
    for line in found.splitlines():
        by_key.setdefault(line.partition(b"=")[0], []).append(line)
    for key, mine in by_key.items():
        assert mine == [one for one in lines.splitlines() if one.startswith(key + b"=")]
    tabbed = run("topic", "consume", "orders", "--from-beginning", "--keys").out
    assert tabbed == b"".join(line.replace(b"=", b"\t", 1) + b"\n" for line in found.splitlines())
    alone = run("topic", "consume", "orders", "--from-beginning").out
    assert alone == b"".join(line.partition(b"=")[2] + b"\n" for line in found.splitlines())


def test_a_null_value_deletes_its_key_and_is_told_from_an_empty_one(run: Run) -> None:
    run(
        "topic", "produce", "orders", "--create", "--key-separator", ":", "--null-value", "NULL",
        stdin=b"a:1\na:NULL\nb:\n:x\n",
    )  # fmt: skip
    printed = run(
        "topic", "consume", "orders", "--from-beginning", "--keys", "--null-value", "NULL"
    )
    assert printed.out == b"a\t1\na\tNULL\nb\t\n\tx\n"
    assert run("topic", "consume", "orders", "--from-beginning").out == b"1\n\n\nx\n"
    found = run("topic", "consume", "orders", "--from-beginning", as_json=True).out.splitlines()
    assert [(one["key"], one["value"]) for one in map(json.loads, found)] == [
        ("a", "1"), ("a", None), ("b", ""), ("", "x"),
    ]  # fmt: skip


def test_messages_without_a_key_are_spread_and_a_partition_can_be_chosen(run: Run) -> None:
    run("topic", "create", "orders", "--partitions", "2")
    for _ in range(2):
        run("topic", "produce", "orders", "--partition", "1", stdin=b"x\n")
    done = run("topic", "produce", "orders", "--partition", "1", "--key-separator", ":",
               stdin=b"k:v\n")  # fmt: skip
    assert done.lines() == ["orders: appended 1 message, up to 1:2"]
    assert run("topic", "consume", "orders", "--partition", "0", "--from-beginning").out == b""
    assert run("topic", "consume", "orders", "--partition", "1", "--from-beginning").out == (
        b"x\nx\nv\n"
    )


def test_both_levels_of_acknowledgement_are_taken(run: Run) -> None:
    for level in ("after_write", "after_fsync"):
        run("topic", "produce", "orders", "--create", "--ack", level, stdin=b"x\n")
    assert run("topic", "consume", "orders", "--from-beginning").out == b"x\nx\n"


def test_more_than_an_append_may_have_is_appended_in_parts(run: Run) -> None:
    run("topic", "create", "orders", "--config", "request_bytes_max=4KiB",
        "--config", "message_bytes_max=1KiB")  # fmt: skip
    lines = b"".join(b"%d\n" % number for number in range(5000)) + b"y" * 1024 + b"\n"
    run("topic", "produce", "orders", stdin=lines)
    assert run("topic", "consume", "orders", "--from-beginning").out == lines


def test_settings_are_compared_with_those_of_the_store(run: Run, root: Path) -> None:
    run("topic", "create", "other")
    (root / "lakebed.toml").write_text('[keratin]\nmessage_bytes_max = "1MiB"\n')
    run("topic", "create", "orders", "--config", "request_bytes_max=8MiB")
    run("topic", "configure", "other", "request_bytes_max=8MiB")
    for topic in ("orders", "other"):
        described = run("topic", "describe", topic, as_json=True).document()
        assert described["settings"]["request_bytes_max"] == 8 << 20
    refused = run("topic", "configure", "other", "request_bytes_max=512KiB")
    assert (refused.exit_code, refused.error_line()) == (
        78,
        (
            "topic other: its settings contradict the store's: message_bytes_max is 1048576, which "
            "must not exceed request_bytes_max (524288)"
        ),
    )


def test_a_place_or_a_time_is_where_it_begins(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        moments = [1_700_000_000_000 + 1000 * index for index in range(5)]
        values = [b"%d" % index for index in range(5)]
        store.topic("orders").append_batch(values, timestamps_ms=moments).result()
    assert run("topic", "consume", "orders", "--offset", "3").out == b"3\n4\n"
    assert run("topic", "consume", "orders", "--offset", "5").out == b""
    assert run("topic", "consume", "orders", "--since", "1700000002000").out == b"2\n3\n4\n"
    assert run("topic", "consume", "orders", "--since", "2023-11-14T22:13:22Z").out == b"2\n3\n4\n"
    later = run("topic", "consume", "orders", "--since", "2023-11-14T22:13:22.0001Z")
    assert later.out == b"3\n4\n"
    assert run("topic", "consume", "orders", "--since", "2200-01-01").out == b""
    assert run("topic", "consume", "orders", "--from-beginning", "--max", "2").out == b"0\n1\n"
    assert run("topic", "consume", "orders", "--from-beginning", "--max", "0").out == b""
    assert run("topic", "consume", "orders", "--max", "0").out == b""
    shown = run("topic", "consume", "orders", "--offset", "4", "--show", "times", "--show",
                "offsets")  # fmt: skip
    assert shown.out == b"0:4\t1700000004000\t4\n"


def test_following_from_a_place_ends_after_so_many(run: Run, orders: str) -> None:
    followed = run("topic", "consume", orders, "--from-beginning", "--follow", "--max", "3")
    assert followed.out == LINES


def test_as_json_a_message_is_one_object_on_a_line(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        partition = store.topic("orders").partition(0)
        partition.append_batch(
            [b"text", b"\xff"], keys=[b"k", b"\xfe"], headers=[[("h", b"1"), ("n", None)], []],
            timestamps_ms=5,
        ).result()  # fmt: skip
    found = run("topic", "consume", "orders", "--from-beginning", as_json=True).out.splitlines()
    assert [json.loads(line) for line in found] == [
        {"partition": 0, "offset": 0, "timestamp_ms": 5, "key": "k", "value": "text",
         "headers": [{"name": "h", "value": "1"}, {"name": "n", "value": None}]},
        {"partition": 0, "offset": 1, "timestamp_ms": 5, "key_base64": "/g==",
         "value_base64": "/w==", "headers": []},
    ]  # fmt: skip


# Through a group.


def test_a_group_prints_each_message_once(run: Run, orders: str) -> None:
    consume = ("topic", "consume", orders, "--group", "billing")
    assert run(*consume, "--max", "2").out == b"first\nsecond\n"
    assert run(*consume).out == b"third\n"
    assert run(*consume).out == b""
    run("topic", "produce", orders, stdin=b"fourth\n")
    found = json.loads(run(*consume, as_json=True).out)
    assert (found["value"], found["offset"], found["delivery_count"]) == ("fourth", 3, 1)
    assert run("topic", "consume", orders, "--group", "other").out == LINES + b"fourth\n"


def test_a_group_follows_until_it_has_so_many(run: Run, orders: str) -> None:
    done = run("topic", "consume", orders, "--group", "billing", "--follow", "--max", "3")
    assert (done.exit_code, done.out) == (0, LINES)


def test_what_others_hold_is_told(run: Run, root: Path, orders: str) -> None:
    with Store.open(root) as store:
        assert len(store.topic(orders).group("billing").lease(max_messages=2)) == 2
    done = run("topic", "consume", orders, "--group", "billing")
    assert done.out == b"third\n"
    assert done.error_line() == "2 messages not printed: leased by others, or delayed"
