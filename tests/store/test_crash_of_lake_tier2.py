"""A crash at any step of what logs do in the store's own object store, SQLite included."""

from __future__ import annotations

import pytest

from lakebed.aof.identity import OWN_FOLDER, OWN_STORE, load_identity
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.base.simulation.sweep import sweep
from lakebed.base.simulation.world import World
from tests.aof.tiers.tiered_logs import PATHS, check_artefacts, contents, write_segments
from tests.store.lake_tiers import check_log, keys, simulated_store, tier2, write_cold

FOLDER = SharedTierConfig(retry_ms_first=1, url=OWN_FOLDER)


class Tiering:
    """Segments are written, uploaded, evicted, and brought back."""

    checked_count = 0  # crashes with something in Tier 2

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def run(self, world: World) -> None:
        with simulated_store(world) as store:
            log = store.log("orders")
            for _ in range(2):
                self.written = self.written + write_segments(log, 1)
                log.tiers.upload()
                log.tiers.evict(warm=True)
            log.tiers.hydrate([0])

    def check(self, world: World) -> None:
        with simulated_store(world) as store:
            log = store.log("orders")
            found = contents(log)
            assert found[: len(self.written)] == self.written
            objects = tier2(store)
            check_artefacts(world, log, objects)
            Tiering.checked_count += bool(keys(store))
            log.tiers.upload()
            log.tiers.evict(warm=True)
            assert contents(log) == found
            check_artefacts(world, log, objects)
        with simulated_store(world) as store:
            check_log(store, found)


@pytest.mark.sweep
def test_a_crash_at_any_step_loses_no_record() -> None:
    sweep(Tiering, seeds=[1], survivors=[0, 1], cases_max=120)
    assert Tiering.checked_count > 30


class Move:
    """A log moves into the store's object store, or out of it."""

    checked_count = 0  # crashes while it moved

    def __init__(self, target: str) -> None:
        self.written: list[bytes] = []
        self.target = target

    def run(self, world: World) -> None:
        start = FOLDER if self.target == OWN_STORE else SharedTierConfig()
        with simulated_store(world, shared=start) as store:
            written = write_cold(store, 2)
        self.written = written
        with simulated_store(world) as store:
            store.migrate_tier2("orders", self.target, delete=True)

    def check(self, world: World) -> None:
        if not self.written:
            return  # it was about to be written still
        Move.checked_count += 1
        before = load_identity(world.disk, PATHS).tier2
        assert before in (OWN_STORE, OWN_FOLDER)
        with simulated_store(world) as store:
            log = check_log(store, self.written)
            is_in_store = before == OWN_STORE
            folder = FolderStore(world.disk, "/store/tier2")
            check_artefacts(world, log, tier2(store) if is_in_store else folder)
        with simulated_store(world) as store:
            done = store.migrate_tier2("orders", self.target, delete=True)
            assert (done.missing, done.left_at) == ([], "")
            left = [info.key for info in folder.list("")]
            assert (len(keys(store)), len(left)) == ((2, 0) if self.target == OWN_STORE else (0, 2))
            check_log(store, self.written)


@pytest.mark.sweep
@pytest.mark.parametrize("target", [OWN_STORE, OWN_FOLDER])
def test_a_crash_at_any_step_of_a_migration_leaves_one_good_address(target: str) -> None:
    Move.checked_count = 0
    sweep(lambda: Move(target), seeds=[1], survivors=[0, 1], cases_max=120)
    assert Move.checked_count > 30
