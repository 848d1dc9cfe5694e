"""A disk that fills up: writes are refused in every engine, reads go on, and all comes back."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.base.errors import NoSpace
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.disk import Crash
from lakebed.base.simulation.world import World
from lakebed.base.units import GIB, KIB, MIB
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from lakebed.stroma.config import GroupConfig
from tests.aof.tiers.tiered_logs import contents
from tests.store.batch_commits import batch
from tests.store.lake_tiers import SHARED

RESERVE_BYTES = 256 * KIB
DISK_BYTES = 48 * MIB
VALUE = b"v" * 3000
WRITES_MAX = 2000  # before a full disk is noticed


class Contents:
    """What was acknowledged, by engine; each method writes once more."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.messages: list[bytes] = []
        self.objects: dict[str, bytes] = {}
        self.versions: list[int] = []
        self._unflushed: list[bytes] = []
        self._count = 0

    def append(self, store: Store) -> None:
        data = self._next()
        log = store.log("orders")
        log.append_record_with_timeout(data, 10)
        # If that fails it is not acknowledged, but kept: it is written when there is room again.
        self._unflushed.append(data)
        log.flush()
        self.records += self._unflushed
        self._unflushed = []

    def produce(self, store: Store) -> None:
        data = self._next()
        store.topic("events").append_batch([data]).result()
        self.messages.append(data)

    def commit(self, store: Store) -> None:
        version = len(self.versions) + 1
        store.topic("tables").commit_batches("query", version, {0: [batch(self._next())]})
        self.versions.append(version)

    def put(self, store: Store) -> None:
        data = self._next()
        key = f"{self._count}"
        store.bucket("photos").put(key, data)
        self.objects[key] = data

    def _next(self) -> bytes:
        self._count += 1
        return b"%d " % self._count + VALUE

    def check(self, store: Store) -> None:
        """Everything can be read."""
        assert contents(store.log("orders"))[: len(self.records)] == self.records
        found = [message.value for message in store.topic("events").partition(0).read()]
        assert found == self.messages
        commits = list(store.topic("tables").partition(0).read())
        assert len(self.versions) <= len(commits) <= len(self.versions) + 1
        bucket = store.bucket("photos")
        assert {row.key for row in bucket.list()} == set(self.objects)
        for key, data in self.objects.items():
            assert b"".join(bucket.get(key)) == data


WRITES: list[Callable[[Contents, Store], None]] = [
    Contents.append, Contents.produce, Contents.commit, Contents.put,
]  # fmt: skip


def fill(written: Contents, store: Store) -> list[str]:
    """Write in every engine until that is refused; what it said."""
    told = []
    for write in WRITES:
        with pytest.raises(NoSpace) as refused:
            _repeat(write, written, store)
        told.append(str(refused.value))
        assert "\n" not in told[-1]
    return told


def _repeat(write: Callable[[Contents, Store], None], written: Contents, store: Store) -> None:
    for _ in range(WRITES_MAX):
        write(written, store)


def configs(reserve_bytes: int) -> dict[str, object]:
    return {
        "config": AofConfig(
            segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=reserve_bytes, flush_ms=1)
        ),
        "topic_config": TopicConfig(
            segment_bytes=64 * KIB, batch_bytes_max=8 * KIB, request_bytes_max=32 * KIB,
            message_bytes_max=16 * KIB, reserve_bytes=reserve_bytes, zero_fill=False,
        ),
        "group_config": GroupConfig(lease_ms=60_000),
        "object_config": SeglakeConfig(reserve_bytes=reserve_bytes, cache_bytes=0),
        "tier_config": SHARED,
    }  # fmt: skip


class Place(Protocol):
    """A disk of 48 MiB, and a store on it."""

    def opened(self, reserve_bytes: int) -> AbstractContextManager[Store]: ...

    def fill_up(self) -> None:
        """To the last byte."""

    def make_room(self) -> None: ...

    def reading(self) -> AbstractContextManager[ReadOnlyStore]: ...


class SimulatedPlace:
    def __init__(self, *, capacity_bytes: int = DISK_BYTES) -> None:
        self.world = World(1)
        self.disk = self.world.disk
        self.capacity_bytes = self.disk.capacity_bytes = capacity_bytes

    @contextlib.contextmanager
    def opened(self, reserve_bytes: int) -> Iterator[Store]:
        with (
            contextlib.closing(SimulatedDatabases(self.disk)) as databases,
            Store.open(
                "/store", disk=self.disk, runner=self.world.runner, connector=databases.connect,
                **configs(reserve_bytes),  # type: ignore[call-overload]
            ) as store,
        ):  # fmt: skip
            yield store

    def fill_up(self) -> None:
        self.disk.capacity_bytes = self.disk.used_bytes()

    def make_room(self) -> None:
        self.disk.capacity_bytes = self.capacity_bytes

    @contextlib.contextmanager
    def reading(self) -> Iterator[ReadOnlyStore]:
        with (
            contextlib.closing(SimulatedDatabases(self.disk)) as databases,
            ReadOnlyStore(
                "/store", disk=self.disk, runner=self.world.runner, connector=databases.connect
            ) as store,
        ):
            yield store


class RealPlace:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self._filler = folder / "filler"

    def opened(self, reserve_bytes: int) -> Store:
        store: Store = Store.open(self.root, **configs(reserve_bytes))  # type: ignore[call-overload]
        return store

    def fill_up(self) -> None:
        for piece in (MIB, 4 * KIB):
            with self._filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(piece))

    def make_room(self) -> None:
        self._filler.unlink()

    def reading(self) -> ReadOnlyStore:
        return ReadOnlyStore(self.root)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On a simulated disk everywhere, and on a real one where a file system may be mounted."""
    if "place" in metafunc.fixturenames:
        real = [pytest.param("real", marks=pytest.mark.process)] if may_mount() else []
        metafunc.parametrize("place", ["simulated", *real], indirect=True)


@cache
def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        is_mounted = mount(folder)
        if is_mounted:
            unmount(folder)
        return is_mounted


def mount(folder: str | Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    try:
        return not subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:  # there is no such program
        return False


def unmount(folder: str | Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "simulated":
        yield SimulatedPlace()
        return
    assert mount(tmp_path)
    try:
        yield RealPlace(tmp_path)
    finally:
        unmount(tmp_path)


def test_below_the_reserve_every_engine_refuses_reads_go_on_and_all_comes_back() -> None:
    place = SimulatedPlace(capacity_bytes=1 << 40)
    world = place.world
    written = Contents()
    with place.opened(RESERVE_BYTES) as store:
        for write in WRITES:
            write(written, store)
        group = store.topic("events").group("readers")
        plenty = world.disk.capacity_bytes
        world.disk.capacity_bytes = world.disk.used_bytes() + RESERVE_BYTES + 100 * KIB
        for told in fill(written, store):
            assert f"{RESERVE_BYTES >> 10}KiB are kept in reserve: writes are refused until" in told
        written.check(store)
        # The reserve is for what must go on: acks, deletes, and closing.
        group.ack_all(group.lease(max_messages=1))
        store.bucket("photos").delete(min(written.objects))
        del written.objects[min(written.objects)]
        world.disk.capacity_bytes = plenty
        for write in WRITES:
            write(written, store)
        written.check(store)
        world.disk.capacity_bytes = world.disk.used_bytes() + RESERVE_BYTES
    world.restart(Crash.POWER)
    with place.opened(RESERVE_BYTES) as store:
        written.check(store)
        assert len(store.topic("events").group("readers").lease(max_messages=9999)) == (
            len(written.messages) - 1
        )


def test_a_disk_that_is_full_is_survived_without_any_reserve(place: Place) -> None:
    written = Contents()
    with place.opened(0) as store:
        for write in WRITES:
            write(written, store)
        for _ in range(2):
            place.fill_up()
            told = fill(written, store)
            is_simulated = isinstance(place, SimulatedPlace)  # whose SQLite says nothing
            assert is_simulated or all("No space left" in one or "full" in one for one in told)
            written.check(store)
            place.make_room()
            for write in WRITES:
                write(written, store)
            written.check(store)
    with place.opened(0) as store:
        written.check(store)
    with place.reading() as beside:
        assert verify_store(beside, tier2=True, progress=lambda *_: None).is_good


def test_a_disk_below_the_reserve_refuses_from_the_start(place: Place) -> None:
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(place.opened(GIB))
        for told in fill(Contents(), store):
            assert "1GiB are kept in reserve" in told
        Contents().check(store)
        with pytest.raises(NoSpace):  # a record was taken, and could not be written
            stack.close()
    with place.opened(GIB) as store:
        Contents().check(store)
