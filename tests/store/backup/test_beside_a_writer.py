"""A backup of a store that is written to all the while: between any two looks at its files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lakebed.base.errors import Busy, NotFound
from lakebed.base.files.protocol import PathLike
from lakebed.base.files.real import RealDisk, RealFile, Writers
from lakebed.kernels import write_and_sync, zero_fill
from lakebed.seglake.meta.connection import connect_read_only
from lakebed.store.backup.create import create_backup
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.stroma.config import GroupConfig
from tests.aof.tiers.tiered_logs import contents
from tests.store.backup.backups import check_whole, restored, vault_at
from tests.store.batch_commits import batch
from tests.store.lake_tiers import CONFIG, SHARED
from tests.store.queues import drained
from tests.store.whole_stores import OBJECTS, TOPICS

APPLICATION = "query 7"


class RestlessDisk(RealDisk):
    """Something happens before every look."""

    def __init__(self, disturb: Callable[[], None]) -> None:
        super().__init__(Writers(write_and_sync=write_and_sync, zero_fill=zero_fill))
        self._disturb = disturb

    def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
        self._disturb()
        return super().open(path, writable=writable)

    def names(self, folder: PathLike) -> list[str]:
        self._disturb()
        return super().names(folder)


class BusyWriter:
    """Does one thing after the other, and knows what was acknowledged."""

    def __init__(self, store: Store, random: Random) -> None:
        self.store = store
        self._random = random
        self._count = 0
        self._version = 0
        self.topic = store.topic("events", partitions=2)
        self.group = self.topic.group("readers")
        self.bucket = store.bucket("effects")
        self.log = store.log("orders")
        self.logged: list[bytes] = []
        self._actions = (
            self.append, self.append, self.seal, self.move, self.produce, self.produce,
            self.consume, self.consume, self.commit, self.commit, self.roll, self.remake,
            self.remake, self.truncate,
        )  # fmt: skip

    def act(self) -> None:
        self._count += 1
        self._random.choice(self._actions)()

    def append(self) -> None:
        data = b"record %d " % self._count * self._random.randrange(1, 200)
        self.log.append_record_with_timeout(data, 10)
        self.log.flush()
        self.logged.append(data)

    def seal(self) -> None:
        self.log.seal_current_segment()

    def move(self) -> None:
        with contextlib.suppress(Busy):  # pinned
            self.log.tiers.upload()
            self.log.tiers.evict(warm=self._random.random() < 0.5)

    def produce(self) -> None:
        """A message that names an object, which is there before it."""
        name = f"claim/{self._count}"
        self.bucket.put(name, name.encode())
        self.topic.append_batch([name.encode()]).result()

    def consume(self) -> None:
        """What follows from a message is there before its ack."""
        leased = self.group.lease(max_messages=3)
        for message in leased:
            self.bucket.put(f"done/{message.partition}/{message.offset}", b"done")
        self.group.ack_all(leased)

    def commit(self) -> None:
        self._version += 1
        self.topic.commit_batches(
            APPLICATION,
            self._version,
            {0: [batch(*(b"%d:%d" % (self._version, part) for part in range(5)))]},
        )

    def roll(self) -> None:
        self.topic.partition(self._random.randrange(2)).seal()

    def remake(self) -> None:
        """Another topic of the same name, with one message; sometimes that is settled."""
        with contextlib.suppress(NotFound):
            self.store.topics.delete("passing")
        topic = self.store.topic("passing")
        topic.append_batch([b"%d" % self._count]).result()
        if self._random.random() < 0.5:
            self.bucket.put(f"passed/{self._count}", b"")
            group = topic.group("readers")
            group.ack_all(group.lease())

    def truncate(self) -> None:
        partition = self.topic.partition(1)
        partition.truncate_before(partition.start_offset() + 1)


def check_restored(root: Path, before: dict[str, list[bytes]], writer_logged: list[bytes]) -> None:
    check_whole(root)
    with opened(root) as store:
        logged = contents(store.log("orders"))
        assert before["log"] == logged[: len(before["log"])]
        assert logged == writer_logged[: len(logged)]
        topic, bucket = store.topic("events"), store.bucket("effects")
        objects = {row.key for row in bucket.list()}
        found = {
            (number, message.offset): message.value or b""
            for number in (0, 1)
            for message in topic.partition(number).read()
        }
        assert set(before["messages"]) <= set(found.values()) | {b"cut"}
        claims = {value.decode() for value in found.values() if value.startswith(b"claim/")}
        assert claims <= objects
        commits = [value.split(b":") for value in found.values() if b":" in value]
        versions = [int(version) for version, _ in commits]
        assert versions == [version for version in sorted(set(versions)) for _ in range(5)]
        for version in set(versions):
            [known] = topic.commit_batches(APPLICATION, version, {0: [batch(b"again")]})
            assert not known.is_new
        for number, lag in topic.group("readers").lag().items():
            assert lag >= 0, number
        left = {(message.partition, message.offset) for message in drained(topic.group("readers"))}
        settled = set(found) - left
        assert {f"done/{number}/{offset}" for number, offset in settled} <= objects
        if "passing" in store.topic_names():
            passing = store.topic("passing")
            [value] = [message.value for message in passing.partition(0).read()]
            is_settled = not drained(passing.group("readers"))
            assert not is_settled or f"passed/{int(value or b'')}" in objects


def opened(root: Path) -> Store:
    return Store.open(
        root,
        config=CONFIG,
        tier_config=SHARED,
        object_config=OBJECTS,
        topic_config=TOPICS,
        group_config=GroupConfig(lease_ms=60_000, compaction_events=5, compaction_bytes=4096),
    )


def run(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    is_acting = False
    looks = 0
    with opened(tmp_path / "root") as store:
        writer = BusyWriter(store, random)
        for _ in range(40):
            writer.act()

        def disturb() -> None:
            nonlocal is_acting, looks
            looks += 1
            if not is_acting and random.random() < 0.4 and looks < 600:
                is_acting = True
                writer.act()
                is_acting = False

        before = {"log": list(writer.logged), "messages": []}
        partition = writer.topic.partition(0)
        before["messages"] = [message.value or b"" for message in partition.read()]
        vault = vault_at(tmp_path / "vault")
        for number in range(2):
            looks = 0
            with ReadOnlyStore(
                tmp_path / "root", disk=RestlessDisk(disturb), connector=connect_read_only
            ) as beside:
                taken = create_backup(beside, vault, part_bytes=30_000)
            assert taken.snapshot.problems == ()
            assert list((tmp_path / "root" / "pins").iterdir()) == []
            new = restored(vault, taken.snapshot, tmp_path / f"new {number}")
            check_restored(new, before, writer.logged)


def test_a_backup_beside_a_busy_writer_is_consistent(tmp_path: Path) -> None:
    run(tmp_path, 1)


def test_a_group_that_is_folded_between_its_files_loses_no_ack(tmp_path: Path) -> None:
    looks = []
    with opened(tmp_path / "root") as store:
        topic = store.topic("events")
        group = topic.group("readers")

        def settle(count: int) -> None:
            for number in range(count):
                topic.append_batch([b"%d" % number]).result()
                group.ack_all(group.lease())

        class FoldingDisk(RestlessDisk):
            def open(self, path: PathLike, *, writable: bool = False) -> RealFile:
                if str(path).endswith((".snap", ".delta")):
                    settle(200)
                    looks.append(path)
                return super().open(path, writable=writable)

        settle(200)
        disk = FoldingDisk(lambda: None)
        vault = vault_at(tmp_path / "vault")
        with ReadOnlyStore(tmp_path / "root", disk=disk, connector=connect_read_only) as beside:
            snapshot = create_backup(beside, vault).snapshot
    assert len(looks) == 2
    with opened(restored(vault, snapshot, tmp_path / "new")) as store:
        left = drained(store.topic("events").group("readers"))
        assert all(message.offset >= 200 for message in left)
        assert store.topic("events").partition(0).high_watermark() == 600


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2, 8))
def test_so_it_is_whatever_the_writer_does(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_so_it_is_in_many_runs(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)
