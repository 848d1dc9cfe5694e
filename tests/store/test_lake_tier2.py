"""Tier 2 of a store's logs is its own object store, unless somebody says otherwise."""

from __future__ import annotations

import contextlib
from pathlib import Path
from random import Random

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.identity import OWN_FOLDER, OWN_STORE
from lakebed.aof.manager import AofManager
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.base.errors import BadConfig, Busy, Closed, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.simulation.databases import SimulatedDatabases
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB, MIB
from lakebed.seglake.model import Versioning
from lakebed.store.lake_object_store import BUCKET
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import write_segments
from tests.store.lake_tiers import (
    CONFIG,
    address,
    check_log,
    keys,
    open_store,
    simulated_store,
    write_cold,
)

pytestmark = pytest.mark.thorough


def test_a_cold_log_is_in_the_store_itself_and_read_from_there(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_cold(store)
        assert [bucket.name for bucket in store.buckets()] == [BUCKET]
        assert store.buckets()[0].versioning is Versioning.DISABLED
        assert len(keys(store)) == 3
        log = check_log(store, written)
        assert {place.tiers for place in log.tiers.residency()} == {(2,)}
    assert address(tmp_path) == OWN_STORE
    assert not (tmp_path / "tier2").exists()
    with open_store(tmp_path) as store:
        log = check_log(store, written)
        assert log.tiers.hydrate() == [0, 1, 2]
        assert log.tiers.doubtful(log.tiers.states()) == []
        check_log(store, written)


def test_readers_find_cold_segments_beside_the_writer_and_after_it(tmp_path: Path) -> None:
    def read() -> list[bytes]:
        with Store.open(tmp_path, read_only=True) as reading:
            return [bytes(record.payload) for record in reading.log("orders").read()]

    with open_store(tmp_path) as store:
        written = write_cold(store)
        assert read() == written
    assert read() == written


def test_who_needs_no_objects_gets_none(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_segments(store.log("orders"), 2)
        store.topic("events").append_batch([b"one"]).result()
    assert address(tmp_path) == OWN_STORE
    with Store.open(tmp_path, read_only=True) as reading:
        assert [bytes(record.payload) for record in reading.log("orders").read()] == written
    assert not (tmp_path / "objects").exists()
    assert list(tmp_path.glob("meta.db*")) == []


def test_a_log_keeps_the_address_it_has(tmp_path: Path) -> None:
    with AofManager(tmp_path, config=CONFIG) as manager:
        written = write_segments(manager.open("orders"), 2)
    with open_store(tmp_path) as store:
        log = check_log(store, written)
        log.tiers.upload()
        log.tiers.evict(warm=True)
        check_log(store, written)
    assert address(tmp_path) == OWN_FOLDER
    assert len(list((tmp_path / "tier2").rglob("*.zst"))) == 2
    assert not (tmp_path / "meta.db").exists()


@pytest.mark.parametrize("url", [OWN_FOLDER, "elsewhere"])
def test_the_settings_may_say_otherwise(tmp_path: Path, url: str) -> None:
    chosen = url if url == OWN_FOLDER else str(tmp_path / url)
    root = tmp_path / "root"
    with open_store(root, shared=SharedTierConfig(url=chosen)) as store:
        written = write_cold(store)
    assert address(root) == chosen
    with open_store(root) as store:
        check_log(store, written)
    assert not (root / "meta.db").exists()


def test_the_settings_may_name_what_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEBED_AOF_TIER2_URL", OWN_STORE)
    with Store.open(tmp_path) as store:
        store.log("orders")
    assert address(tmp_path) == OWN_STORE


def test_a_bare_manager_says_that_the_tier_2_is_inside_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_cold(store)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "aof").rglob("*")}
    with AofManager(tmp_path, config=CONFIG) as manager:
        with pytest.raises(BadConfig, match="Tier 2 is in the object store of its own root"):
            manager.open("orders")
        with pytest.raises(BadConfig, match="Tier 2 is in the object store of its own root"):
            manager.migrate_tier2("orders", OWN_FOLDER)
        with pytest.raises(BadConfig, match="Tier 2 is in the object store of its own root"):
            manager.migrate_tier2("orders", str(tmp_path / "elsewhere"))
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "aof").rglob("*")}
    told_so = SharedTierConfig(url=OWN_STORE)
    with AofManager(tmp_path, tier_config=told_so) as manager:
        with pytest.raises(BadConfig, match="Tier 2 is in the object store of its own root"):
            manager.open("new")
        assert manager.names() == ["orders"]
    with open_store(tmp_path) as store:
        check_log(store, written)


def test_a_simulated_disk_without_its_metadata_has_a_folder() -> None:
    world = World(1)
    with Store.open("/store", config=CONFIG, disk=world.disk, runner=world.runner) as store:
        write_cold(store)
    assert world.disk.is_folder("/store/tier2")
    assert not world.disk.exists("/store/meta.db")


def test_a_simulated_store_is_read_only_through_its_own_disk() -> None:
    world = World(2)
    with simulated_store(world) as store:
        written = write_cold(store)
        check_log(store, written)
    assert world.disk.exists("/store/meta.db")
    with (
        Store.open("/store", read_only=True, disk=world.disk, runner=world.runner) as reading,
        pytest.raises(BadConfig, match="Tier 2 is in the object store of its own root"),
    ):
        list(reading.log("orders").read())
    with contextlib.closing(SimulatedDatabases(world.disk)) as databases:
        connector = databases.connect
        with Store.open(
            "/store", read_only=True, disk=world.disk, runner=world.runner, connector=connector
        ) as reading:
            assert [bytes(one.payload) for one in reading.log("orders").read()] == written


@pytest.mark.parametrize("delete", [False, True])
def test_a_log_moves_into_the_store_and_out_of_it(tmp_path: Path, delete: bool) -> None:
    with open_store(tmp_path, shared=SharedTierConfig(url=OWN_FOLDER)) as store:
        written = write_cold(store)
    with open_store(tmp_path) as store:
        done = store.migrate_tier2("orders", delete=delete)
        assert (done.before, done.after, done.copied_count) == (OWN_FOLDER, OWN_STORE, 3)
        assert done.deleted_count == (3 if delete else 0)
        assert len(keys(store)) == 3
        check_log(store, written)
        with pytest.raises(Busy, match="is open"):
            store.migrate_tier2("orders", OWN_FOLDER)
        with pytest.raises(NotFound):
            store.migrate_tier2("others")
    with open_store(tmp_path) as store:
        back = store.migrate_tier2("orders", OWN_FOLDER, delete=True)
        assert (back.after, back.missing, back.left_at) == (OWN_FOLDER, [], "")
        assert back.present_count == (0 if delete else 3)
        assert keys(store) == []
        check_log(store, written)


def test_what_is_deleted_leaves_no_version_behind(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        write_cold(store)
    with open_store(tmp_path) as store:
        store.migrate_tier2("orders", OWN_FOLDER, delete=True)
        with store.lake._database.snapshot() as reader:
            assert list(reader.versions_from(BUCKET, start=b"", end=b"\xff")) == []


def test_an_address_in_the_store_that_is_not_its_tier_2_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        write_cold(store)
    with open_store(tmp_path) as store:
        for url in ("store://another", f"{OWN_STORE}/prefix", "store://"):
            with pytest.raises(BadConfig):
                store.migrate_tier2("orders", url)
    assert address(tmp_path) == OWN_STORE


def test_nobody_opens_the_lake_again_behind_its_store(tmp_path: Path) -> None:
    with ThreadRunner() as runner:  # it outlives the store: a lake could be opened on it
        with Store.open(tmp_path, config=CONFIG, runner=runner) as store:
            write_cold(store)
            objects = store.log("orders").tiers.cold.store
            key = keys(store)[0]
        with pytest.raises(Closed):
            objects.head(key)


def test_a_store_that_is_closed_while_it_uploads_goes_on_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Uploads end before the lake does, wherever they are when the store is closed."""
    config = tiered(tier0_bytes=256 * KIB)
    written: list[bytes] = []
    for _ in range(6):
        with open_store(tmp_path, config=config) as store:
            written += write_segments(store.log("orders"), 3)
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == []
    with open_store(tmp_path) as store:
        log = check_log(store, written)
        log.tiers.upload()
        assert all(2 in place.tiers for place in log.tiers.residency() if place.is_sealed)
        assert not any(place.failures for place in log.tiers.residency())


def tiered(*, tier0_bytes: int) -> AofConfig:
    return AofConfig(
        segment_bytes=64 * KIB,
        flush=FlushConfig(reserve_bytes=0, flush_ms=1),
        tiers=TierConfig(tiering_enabled=True, tier0_bytes_max=tier0_bytes, pause_ms=0),
    )


def test_a_log_ten_times_its_local_tiers_is_read_back_in_full(tmp_path: Path) -> None:
    config = tiered(tier0_bytes=256 * KIB)
    shared = SharedTierConfig(tier0_bytes_max=256 * KIB, tier1_bytes_max=128 * KIB)
    random = Random(7)
    written: list[bytes] = []
    with open_store(tmp_path, config=config, shared=shared) as store:
        log = store.log("orders")
        while sum(map(len, written)) < 4 * MIB:
            written.append(random.randbytes(12_000))
            log.append_record_with_timeout(written[-1], 60)
        log.flush()
        check_log(store, written)
        cold = [place for place in log.tiers.residency() if place.tiers == (2,)]
        assert len(cold) > 40, "most of it is in Tier 2 alone"
        with Store.open(tmp_path, read_only=True) as reading:
            assert [bytes(one.payload) for one in reading.log("orders").read()] == written
    with open_store(tmp_path, config=config, shared=shared) as store:
        check_log(store, written)
