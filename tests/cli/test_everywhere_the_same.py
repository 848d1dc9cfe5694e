"""Commands print the same wherever the store is.

Each script is run on a store that no process has open; while a program that embeds the store is
running; while `lakebed serve` is running; and against the URL of a node. Every line, document and
exit code must be the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.host.store import Store
from lakebed.stroma.config import GroupConfig
from tests.cli.beside import Step, holding, played
from tests.cli.in_process import Run, runner
from tests.cli.tiered_stores import LINES, make_root
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.process

KINDS = ("embedding", "serving", "remote")
CHECKSUM_BYTES = 4  # behind the payload of a message
KEYED = b"ada:one\nbob:two\nada:three\ncy:\n"

TOPICS = [
    Step("topic create orders --partitions 2 --config retention_ms=7d", as_json=True),
    Step("topic create orders"),
    Step("topic create a/b"),
    Step("topic create more --partitions 0"),
    Step("topic produce orders --key-separator : --null-value none", KEYED),
    Step("topic produce orders --key-separator :", KEYED, as_json=True),
    Step("topic produce orders --partition 1", b"\n\nlast"),
    Step("topic produce orders --partition 7", b"one\n"),
    Step("topic produce orders --key-separator :", b"ada:one\nno key\nbob:two\n"),
    Step("topic produce nowhere", b"one\n"),
    Step("topic produce new --create --ack after_write", b"one\ntwo\n"),
    Step("topic produce new", b"x" * 17_000_000),
    Step("topic consume orders --from-beginning --keys"),
    Step("topic consume orders --offset 1 --partition 1 --show offsets", as_json=True),
    Step("topic consume orders --since 2020-01-01T00:00:00Z --max 3"),
    Step("topic consume nowhere --from-beginning"),
    Step("topic consume orders --offset 99 --partition 0"),
    Step("topic describe nowhere"),
    Step("topic repair new --dry-run"),
    Step("topic configure orders compact=true segment_bytes=1MiB"),
    Step("topic configure orders compact=maybe"),
    Step("topic configure nowhere compact=true"),
    Step("topic delete orders"),
    Step("topic delete orders --yes"),
    Step("topic delete orders --yes"),
    Step("topic produce new", b"three\n"),  # synced, and with it what was only written
    Step("topic consume new --from-beginning"),
]
GROUPS = [
    Step("topic consume line --group billing --max 3 --show offsets"),
    Step("topic consume line --group billing --max 2", as_json=True),
    Step("topic consume line --group billing --keys"),
    Step("group reset line billing --to-offset 4"),
    Step("topic consume line --group billing --keys"),
    Step("group lag line billing"),
    Step("group lag line billing", as_json=True),
    Step("group lag line nobody"),
    Step("group lag nowhere billing"),
    Step("group list", as_json=True),
    Step("group list line"),
    Step("group leases line billing"),
    Step("group release line billing", as_json=True),
    Step("group reset orders billing --to-beginning --create"),
    Step("group reset orders billing --to-offset 2"),
    Step("group reset orders billing --to-offset 2 --partition 1", as_json=True),
    Step("group reset orders billing --to-offset 99 --partition 1"),
    Step("group reset orders billing --to-end --partition 9"),
    Step("group describe orders billing"),
    Step("group reset orders billing --to-time 2020-01-01T00:00:00Z"),
    Step("group reset orders other --to-end"),
    Step("group reset orders other --to-end --create"),
    Step("topic consume orders --group other"),
    Step("topic consume nowhere --group billing"),
    Step("group dead-letters jobs work"),
    Step("group dead-letters jobs work --max 1", as_json=True),
    Step("group dead-letters jobs nobody"),
    Step("group dead-letters jobs work --redrive --max 1"),
    Step("group dead-letters jobs work --redrive", as_json=True),
    Step("group dead-letters jobs nobody --redrive"),
    Step("topic consume jobs --group work"),
    Step("group delete orders billing"),
    Step("group delete orders billing --yes"),
    Step("group delete orders billing --yes"),
    Step("group list"),
]
LOGS = [
    Step("aof append orders --ext-id 7", LINES),
    Step("aof append orders", b"one\ntwo\n", as_json=True),
    Step("aof append orders", b"one\n\ntwo\n"),
    Step("aof append orders", b"x" * 70_000),
    Step("aof append orders"),
    Step("aof append .."),
    Step("aof seal orders"),
    Step("aof seal orders", as_json=True),
    Step("aof append orders", b"open\n"),
    Step("aof seal orders", as_json=True),
    Step("aof seal nowhere"),
    Step("aof segments orders"),
    Step("aof segments orders", as_json=True),
    Step("aof segments nowhere"),
    Step("aof tail orders -n 3 --show ids"),
    Step("aof tail orders -n 2", as_json=True),
    Step("aof cat orders --reverse --max 2 --show ext-ids"),
    Step("aof cat orders --from-time 2020-01-01T00:00:00Z --max 1", as_json=True),
    Step("aof cat nowhere"),
    Step("aof upload orders 0 1"),
    Step("aof upload orders", as_json=True),
    Step("aof upload orders 99"),
    Step("aof evict orders 0 1"),
    Step("aof evict orders 0 --warm", as_json=True),
    Step("aof tiers nowhere"),
    Step("manifest inspect nowhere"),
    Step("manifest inspect 0123456789abcdef"),
    Step("aof retry-upload orders"),
    Step("aof hydrate orders"),
    Step("aof hydrate nowhere"),
    Step("aof repair orders --tier2"),
    Step("aof repair orders --tier2", as_json=True),
    Step("aof repair orders --dry-run"),
    Step("aof repair orders", as_json=True),
    Step("aof migrate-tier2 old elsewhere"),
    Step("aof migrate-tier2 old elsewhere --delete", as_json=True),
    Step("aof migrate-tier2 old s3:/wrong"),
    Step("aof cat orders"),
    Step("aof verify orders --tier2"),
    Step("aof verify orders", as_json=True),
    Step("aof verify nowhere"),
    Step("damage list"),
]
OBJECTS = [
    Step("s3 buckets create photos", as_json=True),
    Step("s3 buckets create photos"),
    Step("s3 buckets create photos --versioning unversioned"),
    Step("s3 buckets create Not_One"),
    Step("s3 put photos/2025/a//../é.txt - --metadata host=ada", b"hello\n"),
    Step("s3 put photos/k - --content-type text/x --metadata a=ü", b"x" * 3_000_000, as_json=True),
    Step("s3 put photos/k - --if-none-match", b"new"),
    Step("s3 put photos/empty -"),
    Step("s3 put nowhere/k -", b"new"),
    Step("s3 put photos/k no-such-file"),
    Step("s3 put photos/k -", b"newer"),
    Step("s3 rm photos/k --version-id <id>"),
    Step("s3 rm photos/k", as_json=True),
    Step("s3 rm photos/k --version-id <id>"),
    Step("s3 rm photos/k --version-id 00000000000000000000000000000000"),
    Step("s3 rm photos/nothing"),
    Step("s3 get photos/k"),
    Step("s3 get photos/empty"),
    Step("s3 get photos/2025/a//../é.txt --range 1-3"),
    Step("s3 get nowhere/k"),
    Step("s3 stat photos/2025/a//../é.txt"),
    Step("s3 stat photos/2025/a//../é.txt", as_json=True),
    Step("s3 stat photos/nothing"),
    Step("s3 ls photos"),
    Step("s3 ls photos", as_json=True),
    Step("s3 ls photos/2025/ --recursive"),
    Step("s3 ls photos --versions --max 2", as_json=True),
    Step("s3 ls nowhere"),
    Step("s3 buckets list"),
    Step("s3 buckets", as_json=True),
    Step("s3 buckets delete photos"),
    Step("s3 rm photos/2025 --recursive"),
    Step("s3 ls photos --versions"),
    Step("s3 rm photos --recursive --versions"),
    Step("s3 rm photos --recursive --versions --yes", as_json=True),
    Step("s3 buckets versioning photos suspended", as_json=True),
    Step("s3 put photos/k -", b"null version"),
    Step("s3 rm photos/k"),
    Step("s3 buckets versioning nowhere enabled"),
    Step("s3 rm photos --recursive"),
    Step("s3 rm photos --recursive --versions --yes"),
    Step("s3 buckets delete photos"),
    Step("s3 buckets delete photos"),
]
KEYS = [
    Step("s3 keys create --label backup --inflight-max 3", as_json=True),
    Step("s3 keys disable <key>", as_json=True),
    Step("s3 keys enable <key>"),
    Step("s3 keys disable LAKENOBODY"),
    Step("s3 keys list"),
    Step("s3 keys", as_json=True),
    Step("s3 keys create"),
]
DAMAGED = [
    Step("aof verify flipped"),
    Step("aof verify flipped", as_json=True),
    Step("aof cat flipped"),
    Step("topic verify torn"),
    Step("aof repair flipped --dry-run"),
    Step("aof repair flipped"),
    Step("aof repair flipped", as_json=True),
    Step("topic repair torn", as_json=True),
    Step("topic repair nowhere"),
    Step("topic consume torn --from-beginning"),
    Step("damage list"),
    Step("damage list", as_json=True),
    Step("damage acknowledge 1", as_json=True),
    Step("damage acknowledge 99"),
    Step("damage list"),
]


def no_more(root: Path) -> None:
    root.mkdir()


def groups(root: Path) -> None:
    """A topic with two partitions, and one with dead letters."""
    with Store.open(root, group_config=GroupConfig(delivery_count_max=1)) as store:
        orders, line = store.topic("orders", partitions=2), store.topic("line")
        for partition in (*orders.partitions, *line.partitions):
            lines = [b"%d-%d" % (partition.number, index) for index in range(5)]
            partition.append_batch(lines, keys=[b"key"] * 5, timestamps_ms=1_000).result()
        jobs = store.topic("jobs")
        jobs.append_batch([b"bad", b"worse"], timestamps_ms=1_000).result()
        work = jobs.group("work")
        work.nack_all(work.lease())
        assert not work.lease()
        assert len(work.dead_letters()) == 2


def tiers(root: Path) -> None:
    """A log that nobody has open, with objects to move."""
    make_root(root)
    with Store.open(root) as store:
        old = store.log("old")
        old.append_records([b"x" * 1000] * 100)
        old.flush()
        old.seal_current_segment(timeout=60.0)


def damage(root: Path) -> None:
    """A topic with a torn end, and a log with a flipped byte in a sealed segment."""
    make_root(root)
    with Store.open(root) as store:
        store.log("flipped").append_records([b"one", b"two", b"three"])
        store.log("flipped").seal_current_segment(timeout=60.0)
        store.topic("torn").append_batch([b"one", b"two"]).result()
    (flipped,) = [one for one in (root / "aof" / "flipped" / "segments").glob("*.seg")
                  if b"two" in one.read_bytes()]  # fmt: skip
    flipped.write_bytes(flipped.read_bytes().replace(b"two", b"tvo"))
    (records,) = (root / "topics" / "torn" / "0" / "segments").glob("*.log")
    data = records.read_bytes()  # some zeros may be reserved behind the last message
    end = data.rindex(b"two") + len(b"two") + CHECKSUM_BYTES
    records.write_bytes(data[:end] + b"\x01\x02\x03")


SCRIPTS: dict[str, tuple[Callable[[Path], None], list[Step]]] = {
    "topics": (no_more, TOPICS),
    "groups": (groups, GROUPS),
    "logs": (tiers, LOGS),
    "objects": (no_more, OBJECTS),
    "keys": (no_more, KEYS),
    "damage": (damage, DAMAGED),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_is_printed_does_not_depend_on_where_the_store_is(
    script: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    prepare, steps = SCRIPTS[script]
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("LAKEBED_SECRET_KEY", SECRET_KEY)
    found = {}
    for kind in ("alone", *KINDS):
        folder = tmp_path / kind
        folder.mkdir()
        monkeypatch.chdir(folder)
        root = Path("root")
        prepare(root)
        with holding(kind, root) as place:
            found[kind] = played(runner(place, monkeypatch, capsysbinary), steps, root)
            assert (root / "lakebed.sock").exists() == (kind != "alone")
        run: Run = runner(root, monkeypatch, capsysbinary)
        assert run("s3", "verify").exit_code == 0 or not os.path.exists("root/meta.db")
    for kind in KINDS:
        for alone, elsewhere in zip(found["alone"], found[kind], strict=True):
            assert elsewhere == alone, kind
