"""A store, opened for writing and for reading."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.aof.log import Aof
from lakebed.aof.manager import AofManager
from lakebed.aof.read_only import ReadOnlyLog
from lakebed.base.clock import NS_PER_S
from lakebed.base.errors import (
    BadConfig,
    BadName,
    Closed,
    Corrupt,
    Locked,
    NotFound,
    UnknownVersion,
)
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.store.store import Store
from tests.fakes.troubled_disk import TroubledDisk
from tests.store.lake_tiers import simulated_store

SMALL = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))


def append(store: Store, name: str, *payloads: bytes) -> None:
    log = store.log(name)
    log.append_records(payloads)
    log.flush()


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in root.rglob("*")
    }


def test_what_is_appended_is_read_by_a_read_only_opener_beside_the_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        append(store, "orders", b"one", b"two")
        with Store.open(tmp_path, read_only=True) as reading:
            assert isinstance(reading.log("orders"), ReadOnlyLog)
            payloads = [record.payload for record in reading.log("orders").read()]
            assert payloads == [b"one", b"two"]
            assert reading.logs() == store.logs() == ["orders"]


def test_a_log_that_was_closed_is_opened_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        append(store, "orders", b"one")
        closed = store.log("orders")
        closed.close()
        append(store, "orders", b"two")
        assert store.log("orders") is not closed
        assert [record.payload for record in store.log("orders").read()] == [b"one", b"two"]
        assert list(store.counters()["aof"]) == ["orders"]


def test_a_log_whose_upkeep_fails_is_among_the_failures_and_the_others_go_on() -> None:
    world = World(2)
    world.disk = disk = TroubledDisk(world)
    config = AofConfig(
        segment_bytes=64 * KIB,
        flush=FlushConfig(reserve_bytes=0),
        retention=RetentionConfig(count_max=10),
    )
    with Store.open("/store", config=config, disk=disk, runner=world.runner) as store:
        for name in ("damaged", "whole"):
            append(store, name, b"one")
            store.log(name).seal_current_segment()
            append(store, name, b"two")
        path = store.log("damaged").segments()[0].path
        for name in ("damaged", "whole"):
            store.log(name).close()
        disk.refused = path
        append(store, "damaged", b"three")
        append(store, "whole", b"three")
        world.runner.advance(10**9)
        ((kind, name, error),) = store.failures()
        assert (kind, name) == ("log upkeep", "damaged")
        assert str(error) == f"{path}: open: Input/output error"
        assert store.log("whole").seal_current_segment() is not None
        disk.refused = ""
        world.runner.advance(31 * 10**9)
        assert store.failures() == []


def test_a_log_is_the_same_object_each_time(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert store.log("orders") is store.log("orders")
        assert isinstance(store.log("orders"), Aof)
    with Store.open(tmp_path, read_only=True) as reading:
        assert reading.log("orders") is reading.log("orders")


def test_a_log_that_was_created_again_is_opened_anew_for_reading(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        append(store, "orders", b"old")
    with Store.open(tmp_path, read_only=True) as reading:
        before = reading.log("orders")
        assert [record.payload for record in before.read()] == [b"old"]
        shutil.rmtree(tmp_path / "aof" / "orders")
        with pytest.raises(NotFound, match="there is no log orders"):
            reading.log("orders")
        with Store.open(tmp_path) as store:
            append(store, "orders", b"new", b"newer")
            again = reading.log("orders")
            assert again.stream_id == store.log("orders").stream_id
            assert [record.payload for record in again.read()] == [b"new", b"newer"]
            assert reading.log("orders") is again


def test_threads_that_ask_at_once_get_one_log(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        found: list[Aof] = []
        threads = [Thread(target=lambda: found.append(store.log("orders"))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(map(id, found))) == 1


def test_a_log_that_failed_to_open_can_be_tried_again(tmp_path: Path) -> None:
    segments = tmp_path / "aof" / "orders" / "segments"
    segments.mkdir(parents=True)
    for base_offset in (0, 1):
        bad = segments / f"{0:020}_{base_offset:020}_{0:020}.seg"
        bad.write_bytes(b"two files with one number")
    with Store.open(tmp_path) as store:
        with pytest.raises(Corrupt):
            store.log("orders")
        for bad in segments.iterdir():
            bad.unlink()
        append(store, "orders", b"one")


def test_the_store_makes_its_folders_and_its_version_file(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "root"
    Store.open(root).close()
    assert {path.name for path in root.iterdir()} == {
        "lakebed.lock",
        "store.json",
        "pins",
        "quarantine",
    }


def test_a_second_writer_is_refused_whichever_way_it_opens(tmp_path: Path) -> None:
    with Store.open(tmp_path):
        with pytest.raises(Locked, match=r"locked by process \d+"):
            Store.open(tmp_path)
        with pytest.raises(Locked):
            AofManager(tmp_path)
    with AofManager(tmp_path), pytest.raises(Locked):
        Store.open(tmp_path)
    Store.open(tmp_path).close()


def test_the_lock_of_another_process_is_seen(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lakebed.store.store import Store\n"
        "with Store.open(sys.argv[1]):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(Locked, match=f"by process {other.pid}$"):
            Store.open(tmp_path)
        other.communicate(b"")
    Store.open(tmp_path).close()


def test_closing_twice_is_fine_and_then_nothing_can_be_opened(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    log = store.log("orders")
    store.close()
    store.close()
    with pytest.raises(Closed):
        store.log("orders")
    with pytest.raises(Closed):
        log.append_record(b"late")
    reading = Store.open(tmp_path, read_only=True)
    reading.log("orders")
    reading.close()
    reading.close()
    with pytest.raises(Closed):
        reading.log("orders")


def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        append(store, "orders", b"one")
    before = tree(tmp_path)
    with Store.open(tmp_path, read_only=True) as reading:
        assert [record.payload for record in reading.log("orders").read()] == [b"one"]
        with pytest.raises(NotFound, match="there is no log missing"):
            reading.log("missing")
    assert tree(tmp_path) == before


def test_a_root_that_does_not_exist_cannot_be_read_and_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such root"):
        Store.open(tmp_path / "missing", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadName, match="must be a folder"):
        Store.open(tmp_path / "file", read_only=True)
    with pytest.raises(BadName, match="must be a folder"):
        Store.open(tmp_path / "file")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"format": "lakebed store", "version": 2, "created_ms": 5}', UnknownVersion),
        ('{"format": "lakebed store", "version": true, "created_ms": 5}', Corrupt),
        ('{"format": "lakebed store", "version": 1}', Corrupt),
        ('{"format": "other", "version": 1, "created_ms": 5}', Corrupt),
        ("[]", Corrupt),
        ("", Corrupt),
        ("\0" * 70, Corrupt),
        ("[" * 4000, Corrupt),
        ("x" * 5000, Corrupt),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_newer_or_damaged_version_file_is_refused_and_nothing_is_touched(
    tmp_path: Path, content: str, error: type[Exception]
) -> None:
    (tmp_path / "store.json").write_text(content)
    before = tree(tmp_path)
    with pytest.raises(error, match=r"store\.json"):
        Store.open(tmp_path)
    with pytest.raises(error, match=r"store\.json"):
        Store.open(tmp_path, read_only=True)
    assert tree(tmp_path) == before


def test_a_root_of_a_bare_manager_is_read_and_adopted(tmp_path: Path) -> None:
    with AofManager(tmp_path) as manager:
        manager.open("orders").append_record(b"one")
    with Store.open(tmp_path, read_only=True) as reading:
        assert reading.version is None
        assert [record.payload for record in reading.log("orders").read()] == [b"one"]
    with Store.open(tmp_path) as store:
        assert store.version.version == 1
        assert store.logs() == ["orders"]


def test_what_is_no_log_is_passed_over(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.log("orders")
        (tmp_path / "aof" / "a file").touch()
        (tmp_path / "aof" / ".hidden" / "segments").mkdir(parents=True)
        (tmp_path / "aof" / "empty").mkdir()
        assert store.logs() == ["orders"]


def test_the_settings_of_the_root_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakebed.toml").write_text(
        '[aof]\nsegment_bytes = "128KiB"\n[aof_flush]\nflush_ms = 7\n[aof_retention]\ncount_max=3\n'
    )
    monkeypatch.setenv("LAKEBED_AOF_FLUSH_FLUSH_BYTES", "64KiB")
    with Store.open(tmp_path) as store:
        assert store.config == AofConfig(
            segment_bytes=128 * KIB,
            flush=FlushConfig(flush_ms=7, flush_bytes=64 * KIB),
            retention=RetentionConfig(count_max=3),
        )
    (tmp_path / "lakebed.toml").write_text("[aof]\nsegment_bytes = 70000\n")
    with pytest.raises(BadConfig, match=r"\[aof\].*not a power of two"):
        Store.open(tmp_path)


def test_a_pinned_segment_outlives_retention(tmp_path: Path) -> None:
    config = AofConfig(
        segment_bytes=64 * KIB,
        flush=FlushConfig(reserve_bytes=0),
        retention=RetentionConfig(count_max=1),
    )

    def seal_more() -> list[int]:
        """Retention is part of a seal's step, which is over when the store is closed."""
        with Store.open(tmp_path, config=config) as store:
            store.log("orders").append_record(b"more")
            store.log("orders").seal_current_segment()
        names = (tmp_path / "aof" / "orders" / "segments").glob("*.seg")
        return sorted(int(path.name[:20]) for path in names)

    assert seal_more() == [0]
    with Store.open(tmp_path, read_only=True) as reading:
        pin = reading.pins.pin(
            "orders", segment_start=0, segment_end=1, duration_ms=60_000, owner="test"
        )
        assert seal_more() == [0, 1]
        assert seal_more() == [0, 1, 2]
        reading.pins.release(pin.pin_id)
    assert seal_more() == [3]


def test_a_store_on_its_own_disk_describes_and_verifies_itself_there() -> None:
    world = World(1)
    with simulated_store(world) as store:
        append(store, "orders", b"one" * 1000)
        store.log("orders").seal_current_segment()
        topic = store.topic("clicks", partitions=2)
        topic.append_batch([b"one"], partition=0).result()
        topic.group("billing")
        store.bucket("photos").put("figs", b"sweet")
        world.runner.advance(NS_PER_S)  # the manifest log records the segments
        assert store.log_summary("orders").name == "orders"
        assert len(store.topic_summary("clicks").partitions) == 2
        assert store.dead_letters("clicks", "billing") == []
        maintenance = store.maintenance
        assert maintenance.verify_log("orders").records == 1
        assert maintenance.verify_manifest("orders").problems == []
        assert maintenance.verify_topic("clicks").records == 1
        assert maintenance.verify_objects().versions == 1
        path = store.log("orders").segments()[0].path
        world.disk.flip_bit(path, offset=200)
        report = maintenance.verify_store()
        assert (len(report.logs), len(report.topics), report.objects.versions) == (1, 1, 1)
        assert {problem.path for problem in report.logs[0].report.problems} == {path}


class Creation:
    """A store is created; a crash anywhere leaves a root that the next opener completes."""

    def run(self, world: World) -> None:
        Store.open("/store", config=SMALL, disk=world.disk, runner=world.runner).close()

    def check(self, world: World) -> None:
        with Store.open("/store", config=SMALL, disk=world.disk, runner=world.runner) as store:
            assert store.version.version == 1
            names = world.disk.names("/store")
            assert set(names) == {"lakebed.lock", "store.json", "pins", "quarantine"}


def test_a_creation_that_was_cut_short_is_completed_by_the_next() -> None:
    assert sweep(Creation, seeds=range(2)) > 20
