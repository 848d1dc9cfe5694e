"""What goes wrong in the store's own object store, as Tier 2 tells it.

That it keeps what every object store promises is tested with the others, in `tests/aof/tiers`.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lakebed.aof.identity import OWN_FOLDER
from lakebed.aof.tiers.errors import Missing, Transient, Unauthorised, Unavailable
from lakebed.aof.tiers.object_store import ObjectSource
from lakebed.aof.tiers.ranges import BytesSource
from lakebed.base.errors import Busy, Closed, Corrupt, NotFound
from lakebed.base.simulation.world import World
from lakebed.seglake.config import SeglakeConfig
from lakebed.seglake.lake import Lake
from lakebed.seglake.model import State, Versioning
from lakebed.store.lake_object_store import BUCKET, LakeObjectStore, ReadOnlyLakeObjectStore
from lakebed.store.store import Store
from tests.aof.tiers.tiered_logs import contents
from tests.store.lake_tiers import (
    check_log,
    damage_object,
    keys,
    open_store,
    simulated_store,
    tier2,
    write_cold,
)

pytestmark = pytest.mark.thorough

KEY = "aof2/some/object"


def put(objects: LakeObjectStore, data: bytes = b"some bytes") -> None:
    objects.put(KEY, BytesSource(data), metadata={"a": "1"})


@pytest.mark.parametrize(
    ("operation", "code", "expected"),
    [
        ("fsync", errno.EIO, Unavailable),
        ("fdatasync", errno.EIO, Unavailable),
        ("pwrite", errno.EIO, Unavailable),
        ("pwrite", errno.ENOSPC, Unavailable),
        ("create", errno.EACCES, Unauthorised),
    ],
)
def test_a_disk_that_fails_is_a_tier_2_that_fails(
    operation: str, code: int, expected: type[Exception]
) -> None:
    world = World(1)
    with simulated_store(world) as store:
        objects = tier2(store)
        store.lake.buckets.create(BUCKET, versioning=Versioning.DISABLED, as_owner=True)
        world.disk.faults.fail(operation, code=code)
        with pytest.raises(expected):
            put(objects)
        put(objects)  # as whoever uses it would
        assert objects.get_range(KEY, offset=0, length=99) == b"some bytes"


def test_nothing_is_there_as_long_as_nothing_was_put(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        objects = tier2(store)
        with pytest.raises(Missing):
            objects.head(KEY)
        with pytest.raises(Missing):
            objects.get_range(KEY, offset=0, length=1)
        objects.delete(KEY)
        assert list(objects.list("")) == []
        assert store.buckets() == []


def test_a_bucket_of_that_name_with_versions_is_not_used(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.lake.buckets.create(BUCKET, versioning=Versioning.ENABLED, as_owner=True)
        with pytest.raises(Unauthorised, match="already exists with versioning enabled"):
            put(tier2(store))


def test_an_object_beyond_the_limit_waits_for_an_operator(tmp_path: Path) -> None:
    config = SeglakeConfig(reserve_bytes=0, max_object_size=5)
    with Store.open(tmp_path, object_config=config) as store:
        with pytest.raises(Unauthorised, match="the maximum is 5"):
            put(tier2(store))
        put(tier2(store), b"12345")


def test_metadata_that_are_no_database_say_nothing_of_an_object(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_cold(store)
    whole = (tmp_path / "meta.db").read_bytes()
    (tmp_path / "meta.db").write_bytes(b"garbage " * 1000)
    with open_store(tmp_path) as store:
        for call in (
            lambda: tier2(store).head(KEY),
            lambda: list(tier2(store).list("")),
            lambda: put(tier2(store)),
        ):
            with pytest.raises(Unavailable, match="not an SQLite database"):
                call()
    with Store.open(tmp_path, read_only=True) as reading, pytest.raises(Unavailable):
        list(reading.log("orders").read())
    (tmp_path / "meta.db").write_bytes(whole)
    with open_store(tmp_path) as store:
        check_log(store, written)


def test_what_is_busy_is_tried_again_and_what_is_closed_is_not(tmp_path: Path) -> None:
    def busy() -> Lake:
        raise Busy("not now")

    def closed() -> Lake:
        raise Closed("over")

    def gone() -> Lake:
        raise NotFound("the disk was pulled out")

    with pytest.raises(Transient, match="not now"):
        LakeObjectStore(busy).head(KEY)
    with pytest.raises(Closed):
        LakeObjectStore(closed).head(KEY)
    with pytest.raises(Unavailable):
        LakeObjectStore(gone).head(KEY)


def test_a_store_that_is_only_read_takes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        put(tier2(store))
    with Store.open(tmp_path, read_only=True) as reading:
        objects = ReadOnlyLakeObjectStore(lambda: reading.lake)
        assert objects.head(KEY).metadata == {"a": "1"}
        assert [info.key for info in objects.list("aof2/")] == [KEY]
        with pytest.raises(Unauthorised):
            objects.put(KEY, BytesSource(b""), metadata={})
        with pytest.raises(Unauthorised):
            objects.delete(KEY)


def test_a_listing_has_all_pages_and_nothing_that_is_no_key_of_tier_2(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.lake.buckets.create(BUCKET, versioning=Versioning.DISABLED, as_owner=True)
        names = [*(f"a/{number:05}" for number in range(2500)), "a/../b"]
        pending = [
            store.lake.objects.begin_put(BUCKET, name, as_owner=True).submit() for name in names
        ]
        for one in pending:
            one.wait()
        assert len(list(tier2(store).list("a/"))) == 2500
        assert len(list(tier2(store).list("b/"))) == 0


# Damage.


def test_a_damaged_object_is_damage_of_tier_2(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        write_cold(store)
        key, *others = keys(store)
        path = damage_object(tmp_path, store, key)
        objects = tier2(store)
        size = objects.head(key).size
        with pytest.raises(Corrupt) as caught:
            ObjectSource(objects, key, size=size).read_range(0, size)
        assert key in str(caught.value)
        assert caught.value.path == str(path)
        assert caught.value.offset is not None
        assert store.lake.objects.head(BUCKET, key).state is State.DAMAGED
        with pytest.raises(Corrupt):
            objects.head(key)  # from now on
        assert keys(store) == others, "as if it were missing: whoever asks is told more"
        log = store.log("orders")
        with pytest.raises(Corrupt):
            contents(log)
        with pytest.raises(Corrupt):
            log.tiers.hydrate([0])
        assert log.tiers.hydrate([1, 2]) == [1, 2]
    with open_store(tmp_path) as store, pytest.raises(Corrupt, match=key):
        store.migrate_tier2("orders", OWN_FOLDER)


def test_an_object_that_was_damaged_on_its_way_is_whole_again(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        written = write_cold(store)
        key = keys(store)[0]
        path = damage_object(tmp_path, store, key)
        with pytest.raises(Corrupt):
            contents(store.log("orders"))
        assert damage_object(tmp_path, store, key) == path  # the same bit, back again
        assert tier2(store).head(key).size
        check_log(store, written)


def test_nothing_is_evicted_whose_object_is_known_to_be_damaged(tmp_path: Path) -> None:
    from lakebed.store.tier_moves import TierMoves

    with open_store(tmp_path) as store:
        written = write_cold(store)
        log = store.log("orders")
        log.tiers.hydrate()
        key = keys(store)[0]
        damage_object(tmp_path, store, key)
        with pytest.raises(Corrupt):
            tier2(store).get_range(key, offset=0, length=1)
        outcome = TierMoves(store, "orders", progress=lambda *_: None).evict(None, warm=True)
        assert [failed.segment_id for failed in outcome.failed] == [0]
        assert [moved.after.segment_id for moved in outcome.moved] == [1, 2]
        check_log(store, written)
