"""Commands that read print the same of one store: read from its files while no process has it open,
read from its files while a node serves it, and read from the URL of that node."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lakebed.host.connect import connect
from lakebed.host.store import Store
from lakebed.seglake.model import Versioning
from lakebed.stroma.config import GroupConfig
from tests.cli.in_process import Done, runner
from tests.cli.tiered_stores import make_root
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

COMMANDS = [
    "aof cat orders",
    "aof cat orders --reverse --max 3 --show ids --show times --show ext-ids",
    "aof cat orders --from-time 2020-01-01T00:00:00Z --max 5",
    "aof cat orders --from 1:64 --to 1:2000",
    "aof tail orders -n 4",
    "aof segments orders",
    "aof dump",
    "aof dump orders",
    "aof tiers orders",
    "aof verify orders",
    "aof verify orders --tier2",
    "aof repair orders --dry-run",
    "manifest inspect orders",
    "manifest inspect orders --type seal-segment --limit 1",
    "manifest inspect orders --chunk 0 --segment 1",
    "manifest history orders 1",
    "manifest state orders",
    "manifest state orders --as-of 0:64",
    "manifest verify orders",
    "topic list",
    "topic describe events",
    "topic consume events --from-beginning --keys --show offsets --show times",
    "topic consume events --partition 1 --offset 2 --max 1",
    "topic consume events --since 1970-01-01T00:00:02Z",
    "topic verify events",
    "topic repair lost --dry-run",
    "group list",
    "group list events",
    "group describe events billing",
    "group lag events billing",
    "group dead-letters jobs failing",
    "group dead-letters jobs failing --max 1",
    "s3 buckets list",
    "s3 ls photos",
    "s3 ls photos/2025/ --recursive",
    "s3 ls photos/2025/ --versions",
    "s3 ls photos --versions --max 2",
    "s3 stat photos/2025/city.txt",
    "s3 verify",
    "s3 verify photos/2025/",
    "s3 keys list",
    "damage list",
    "verify",
    "verify --no-tier2",
]
"""Each is run as it is, and with `--json`."""

MISTAKES = [
    "aof cat nowhere",
    "aof segments nowhere",
    "aof tiers nowhere",
    "aof verify nowhere",
    "manifest state nowhere",
    "manifest inspect 0123456789abcdef",
    "topic describe nowhere",
    "topic consume nowhere --from-beginning",
    "topic consume events --partition 0 --offset 99",
    "topic verify nowhere",
    "group describe nowhere billing",
    "group lag events nobody",
    "s3 ls nowhere",
    "s3 get photos/nothing",
    "s3 stat nowhere/k",
    "s3 ls Not_One",
]


class Places(NamedTuple):
    """Values of `--root`."""

    copy: Path
    root: Path
    url: str


def fill(root: Path) -> None:
    """Something of everything, with times that do not change."""
    make_root(root)
    with Store.open(root, group_config=GroupConfig(delivery_count_max=1)) as store:
        orders = store.log("orders")
        for number in range(3):
            orders.append_records([b"%d-%d" % (number, index) for index in range(50)], ext_ids=7)
            orders.seal_current_segment(timeout=60.0)
        orders.append_record(b"the last")
        orders.flush()
        store.maintenance.upload("orders")
        store.maintenance.evict("orders", segments=[0], warm=True)
        events = store.topic("events", partitions=2)
        for partition in events.partitions:
            partition.append_batch(
                [b"%d" % index for index in range(4)],
                keys=[b"key"] * 4,
                timestamps_ms=[1000 * index for index in range(4)],
            ).result()
        billing = events.group("billing")
        billing.ack_all(billing.lease(max_messages=3))
        jobs = store.topic("jobs")
        jobs.append_batch([b"bad", b"\xff\xfe", b"held"], timestamps_ms=1_000).result()
        failing = jobs.group("failing")
        failing.nack_all(failing.lease(max_messages=2))
        assert len(failing.lease()) == 1
        assert len(failing.dead_letters()) == 2
        jobs.group("work").lease(max_messages=1, lease_ms=3_600_000)
        store.topic("lost")
        photos = store.bucket("photos", versioning=Versioning.ENABLED)
        photos.put("2025/city.txt", b"the old city", metadata={"camera": "none"})
        photos.put("2025/city.txt", b"the new city", content_type="text/plain")
        photos.put("2024/a//../é.txt", b"x" * 100_000)
        photos.delete("2024/a//../é.txt")
        photos.put("top", b"")
        store.bucket("scratch", versioning=Versioning.DISABLED).put("k", b"v")
        store.keys.create(label="backup", inflight_max=3)


def open_all(url: str) -> None:
    """Have the node open what the commands ask for: opening counts, and is recorded."""
    with connect(url, access_key=ACCESS_KEY, secret_key=SECRET_KEY) as store:
        store.open_log("orders")
        for name in store.topics.names():
            topic = store.topics.open(name)
            for group in topic.groups():
                topic.group(group).describe()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("everywhere")
    root, copy = folder / "root", folder / "copy"
    fill(root)
    with Endpoint(root) as node:
        open_all(node.http_url)
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns("lakebed.sock", "lakebed.lock"))
        yield Places(copy, root, node.http_url)


@pytest.fixture(autouse=True)
def access_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("LAKEBED_SECRET_KEY", SECRET_KEY)


class Everywhere:
    """Runs a command on all three."""

    def __init__(
        self,
        places: Places,
        monkeypatch: pytest.MonkeyPatch,
        capture: pytest.CaptureFixture[bytes],
    ) -> None:
        self._places = places
        self._runs = [runner(place, monkeypatch, capture) for place in places]

    def __call__(self, command: str, *, as_json: bool = False) -> list[Done]:
        words = command.split()
        return [self._named(run(*words, as_json=as_json)) for run in self._runs]

    def _named(self, done: Done) -> Done:
        copy, root = os.fsencode(self._places.copy), os.fsencode(self._places.root)
        out, err = (text.replace(copy, b"ROOT").replace(root, b"ROOT") for text in done[1:])
        return Done(done.exit_code, out, err)


@pytest.fixture
def everywhere(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Everywhere:
    return Everywhere(places, monkeypatch, capsysbinary)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_the_same_of_files_and_of_a_node(
    command: str, as_json: bool, everywhere: Everywhere
) -> None:
    alone, served, remote = everywhere(command, as_json=as_json)
    assert (alone.exit_code, alone.err) == (0, b"")
    assert alone.out
    assert served == alone
    assert remote == alone


def test_an_object_is_the_same_everywhere(everywhere: Everywhere, tmp_path: Path) -> None:
    for done in everywhere("s3 get photos/2025/city.txt --range 4-6"):
        assert done == Done(0, b"new", b"")
    alone, served, remote = everywhere(f"s3 get photos/2025/city.txt {tmp_path}/city", as_json=True)
    assert alone.document()["size"] == len(b"the new city")
    assert alone == served == remote


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_ends_with_the_same_exit_code_everywhere(
    command: str, everywhere: Everywhere
) -> None:
    done = everywhere(command)
    assert {one.exit_code for one in done} in ({64}, {66})
    assert all(one.out == b"" and one.error_line() for one in done)
